"""What stands in front of replicas: nginx with the shipped configuration, and a Service of a cluster."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from loadtest.errors import LoadTestError
from loadtest.processes import Listener, RunningProcess, free_port, is_free, wait_until

Address = tuple[str, int]


class Balancer(Listener):
    """Serves a Service's address as kube-proxy does: a new connection goes to any endpoint, and stays there.

    Parameters
    ----------
    choose : names the endpoint; LookupError without one
    """

    def __init__(self, choose: Callable[[], Address]) -> None:
        super().__init__()
        self._choose = choose

    @property
    def address(self) -> str:
        """Host and port."""
        return f"127.0.0.1:{self.port}"

    async def _link(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there, back = await asyncio.open_connection(*self._choose())
        except (OSError, LookupError):
            writer.transport.abort()
            return
        self._writers |= {writer, back}
        await asyncio.gather(_pass_on(reader, back), _pass_on(there, writer))
        for end in (writer, back):
            end.close()
        self._writers -= {writer, back}


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
        writer.write_eof()
    except OSError:
        writer.transport.abort()


@contextmanager
def nginx_before(servers: Sequence[str], folder: Path, waits: int = 2) -> Iterator[str]:
    """Start nginx with docs/nginx.conf before these hosts and ports: its URL.

    Parameters
    ----------
    waits : seconds for the answer of an act
    """
    program = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
    if program is None:
        raise LoadTestError("no nginx found: install one (Debian: nginx-light)")
    port, place = free_port(), folder / "nginx"
    place.mkdir(parents=True)
    text = Path("docs/nginx.conf").read_text("utf-8")
    (line,) = (line for line in text.splitlines() if "server service:8000" in line)
    text = text.replace(line, "\n".join(line.replace("service:8000", each) for each in servers))
    text = text.replace("timeout 2s;", f"timeout {waits}s;")
    text = text.replace("listen 8080;", f"listen 127.0.0.1:{port};").replace("/tmp/nginx", f"{place}/nginx")  # noqa: S108
    (config := place / "nginx.conf").write_text(text, "utf-8")
    # Root's nginx would else read and write as a user who may not enter the folder.
    rules = "daemon off;" + (" user root;" if os.geteuid() == 0 else "")
    process = RunningProcess([program, "-p", str(place), "-c", str(config), "-g", rules], folder / "nginx.log")
    with serving(process, port):
        yield f"http://127.0.0.1:{port}"


@contextmanager
def serving(process: RunningProcess, port: int) -> Iterator[None]:
    """Start a server, wait until it listens, and end it."""
    process.start()
    try:
        wait_until(lambda: process.running and not is_free(port), f"{process.command_line[0]} listens")
        yield
    finally:
        process.end(signal.SIGTERM)
