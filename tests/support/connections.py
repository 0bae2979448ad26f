"""Raw connections to a service, for what no HTTP client would send."""

import contextlib
import json
import socket
from collections.abc import Iterator
from typing import Any, NamedTuple

from tests.support.running import RunningService

JSON = b"Content-Type: application/json\r\n"


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def request(path: str, body: bytes = b"", headers: bytes = b"", method: str = "POST") -> bytes:
    """A request with a Content-Length, whose body is said to be JSON where there is one."""
    kind = JSON if body else b""
    size = b"Content-Length: %d\r\n" % len(body)
    return f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n".encode() + kind + size + headers + b"\r\n" + body


@contextlib.contextmanager
def connected(service: RunningService, seconds: float = 30) -> Iterator[socket.socket]:
    """A connection to the service."""
    host, port = service.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=seconds) as connection:
        yield connection


def answers(connection: socket.socket, count: int) -> list[Answer]:
    """So many answers, leaving out interim ones; fewer where the connection ends before."""
    found: list[Answer] = []
    received = b""
    while len(found) < count:
        if whole := _first(received):
            answer, received = whole
            found += [] if answer.status == 100 else [answer]
        elif data := connection.recv(65_536):
            received += data
        else:
            break
    return found


def exchanged(service: RunningService, sent: bytes, count: int, *, half_closes: bool = False) -> list[Answer]:
    """The answers to some bytes on a connection of their own, as ``answers`` returns them."""
    with connected(service) as connection:
        connection.sendall(sent)
        if half_closes:
            connection.shutdown(socket.SHUT_WR)
        return answers(connection, count)


def _first(received: bytes) -> tuple[Answer, bytes] | None:
    """The first answer, once all of it is there, and what comes after it."""
    head, end, rest = received.partition(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")
    if not end:
        return None
    headers = dict(line.lower().split(": ", 1) for line in lines[1:])
    size = int(headers.get("content-length", "0"))
    return None if len(rest) < size else (Answer(int(lines[0].split()[1]), headers, rest[:size]), rest[size:])


def ends(connection: socket.socket) -> bool:
    """Whether the service has ended the connection, or does so in time, without another byte."""
    return connection.recv(1) == b""
