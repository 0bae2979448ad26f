"""Stores of every kind of URL, with a user whose password is ``PASSWORD``."""

from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from loadtest.processes import free_port
from tests.support.real_redis import RedisServer
from tests.support.tls import Authority, TlsSentinel, TlsServer, watched
from tests.support.waiting import wait_until

PASSWORD = "pEar@:/#?%,& =+plUm'\"ü"
PARTS = ("pEar", "plUm", "wrOng")
"""Of the password as it is, percent-encoded, or cut into pieces."""
USER = "shopper"


def shows(text: str) -> list[str]:
    """Which parts of the passwords a text shows."""
    return [part for part in PARTS if part in text]


class Place(NamedTuple):
    """A store with a user whose password is ``PASSWORD``."""

    url: str
    """With ``{user}`` and ``{password}``, and where sentinels have a password of their own ``{sentinel}``."""
    servers: list[RedisServer]

    def with_password(self, password: str, sentinel: str = PASSWORD) -> str:
        words = {"user": USER, "password": password, "sentinel": sentinel}
        return self.url.format(**{name: quote(word, safe="") for name, word in words.items()})


def guarded(server: RedisServer) -> RedisServer:
    server.client.acl_setuser(USER, enabled=True, passwords=[f"+{PASSWORD}"], keys=["*"], commands=["+@all"])
    return server


class Places:
    """Starts the servers of a kind of URL."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder = folder
        self._stack = stack
        self._authority: Authority | None = None

    @property
    def authority(self) -> Authority:
        self._authority = self._authority or Authority(self._folder / "authority")
        return self._authority

    def server(self, *flags: str, tls: bool = False) -> RedisServer:
        folder = self._folder / "server"
        folder.mkdir()
        server = TlsServer(folder, self.authority, *flags) if tls else RedisServer(folder, *flags)
        self._stack.callback(server.close)
        return guarded(server.start())

    def one(self, address: str, *, tls: bool = False) -> Place:
        socket = str(self._folder / "socket")
        server = self.server("--unixsocket", socket, tls=tls)
        port = server.tls_port if isinstance(server, TlsServer) else server.port
        option = self.authority.option if tls else ""
        return Place(address.replace("PORT", str(port)).replace("SOCKET", socket).replace("TLS", option), [server])

    def cluster(self, *, tls: bool = False) -> Place:
        bus = str(free_port())
        flags = ("--cluster-enabled", "yes", "--cluster-port", bus, *(("--tls-cluster", "yes") if tls else ()))
        server = self.server(*flags, tls=tls)
        server.client.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
        wait_until(lambda: server.client.execute_command("CLUSTER INFO")["cluster_state"] == "ok")
        port = server.tls_port if isinstance(server, TlsServer) else server.port
        scheme, option = ("rediss", f"?{self.authority.option}") if tls else ("redis", "")
        return Place(f"{scheme}+cluster://{{user}}:{{password}}@127.0.0.1:{port}{option}", [server])

    def sentinel(self, *, tls: bool = False) -> Place:
        master = self.server(tls=tls)
        folder = self._folder / "sentinel"
        sentinel: RedisServer
        if isinstance(master, TlsServer):
            sentinel = TlsSentinel(folder, self.authority, master.tls_port)
            port = sentinel.tls_port
        else:
            sentinel = RedisServer(folder, "--sentinel")
            sentinel.configure(f"{watched(master.port)}\n")
            port = sentinel.port
        self._stack.callback(sentinel.close)
        guarded(sentinel.start())
        wait_until(lambda: "s_down" not in sentinel.client.sentinel_masters()["main"]["flags"])
        scheme, option = ("rediss", f"&{self.authority.option}") if tls else ("redis", "")
        query = f"sentinel_username={{user}}&sentinel_password={{sentinel}}{option}"
        url = f"{scheme}+sentinel://{{user}}:{{password}}@127.0.0.1:{port}/main/0?{query}"
        return Place(url, [master, sentinel])


KINDS = {
    "redis": lambda places: places.one("redis://{user}:{password}@127.0.0.1:PORT/0"),
    "redis, in the query": lambda places: places.one(
        "redis://127.0.0.1:PORT/0?username={user}&password={password}"
    ),
    "unix": lambda places: places.one("unix://{user}:{password}@SOCKET"),
    "unix, in the query": lambda places: places.one("unix://SOCKET?username={user}&password={password}"),
    "rediss": lambda places: places.one("rediss://{user}:{password}@127.0.0.1:PORT/0?TLS", tls=True),
    "redis+sentinel": lambda places: places.sentinel(),
    "rediss+sentinel": lambda places: places.sentinel(tls=True),
    "redis+cluster": lambda places: places.cluster(),
    "rediss+cluster": lambda places: places.cluster(tls=True),
}
