"""A certificate authority and servers that speak TLS, on loopback."""

import subprocess
from pathlib import Path
from urllib.parse import quote

from loadtest.processes import free_port
from tests.support.programs import REDIS, program
from tests.support.real_redis import RedisServer

KEY = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2"


class Authority:
    """Makes certificates for a name, as OpenSSL writes it."""

    def __init__(self, folder: Path, name: str = "IP:127.0.0.1") -> None:
        folder.mkdir()
        self._folder = folder
        self._name = name
        self.certificate = self._made("ca", "-addext", "basicConstraints=critical,CA:TRUE")

    def server_flags(self) -> list[str]:
        """What makes a redis-server speak TLS with a certificate of this authority."""
        signer = ("-CA", str(self.certificate), "-CAkey", str(self._folder / "ca.key"))
        leaf = ("-addext", f"subjectAltName={self._name}", "-addext", "basicConstraints=CA:FALSE")
        own = self._made("server", *signer, *leaf)
        files = (
            f"--tls-cert-file {own} --tls-key-file {own.with_suffix('.key')} --tls-ca-cert-file {self.certificate}"
        )
        return [*files.split(), "--tls-auth-clients", "no"]

    @property
    def option(self) -> str:
        """The part of a URL that trusts it."""
        return f"ssl_ca_certs={quote(str(self.certificate), safe='')}"

    def _made(self, name: str, *extensions: str) -> Path:
        certificate = self._folder / f"{name}.pem"
        files = ("-keyout", str(certificate.with_suffix(".key")), "-out", str(certificate))
        words = [program("openssl"), "req", "-x509", "-subj", f"/CN={name}", *KEY.split(), *files, *extensions]
        subprocess.run(words, check=True, capture_output=True)
        return certificate


class TlsSentinel(RedisServer):
    """A sentinel with a TLS port beside its plain one; it reaches the master over TLS."""

    program = REDIS

    def __init__(self, folder: Path, authority: Authority, master_port: int) -> None:
        super().__init__(folder, "--sentinel")
        self.tls_port = free_port()
        flags = authority.server_flags()
        lines = [f"tls-port {self.tls_port}", "tls-replication yes"]
        lines += [f"{name[2:]} {value}" for name, value in zip(flags[::2], flags[1::2], strict=True)]
        self.configure("".join(f"{line}\n" for line in (*lines, watched(master_port))))


def watched(master_port: int) -> str:
    """The line of a sentinel's settings that names its master."""
    return f"sentinel monitor main 127.0.0.1 {master_port} 1"


class TlsServer(RedisServer):
    """A server with a TLS port beside its plain one, which the test itself uses."""

    program = REDIS

    def __init__(self, folder: Path, authority: Authority, *arguments: str) -> None:
        program(REDIS, ", as the wheel's Valkey is built without TLS")
        self.tls_port = free_port()
        folder.mkdir(exist_ok=True)
        flags = ("--tls-port", str(self.tls_port), *authority.server_flags())
        super().__init__(folder, *flags, *arguments)
        self.url = f"rediss://127.0.0.1:{self.tls_port}"
