"""The proxy passes on what it should and loses what it is told to."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import suppress
from threading import Thread

import pytest

from loadtest.chaos.proxy import CuttingProxy


@pytest.fixture
def received() -> Iterator[tuple[int, list[bytes]]]:
    """A port that answers each request with itself in capitals, and the requests that came."""
    requests: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            while True:
                try:
                    link, _ = server.accept()
                except OSError:
                    return
                with link, suppress(ConnectionResetError):
                    while data := link.recv(100):
                        requests.append(data)
                        link.sendall(data.upper())

        thread = Thread(target=answer)
        thread.start()
        yield server.getsockname()[1], requests
        server.shutdown(socket.SHUT_RDWR)
    thread.join()


def ask(proxy: CuttingProxy, request: bytes = b"request") -> bytes:
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=10) as link:
        link.sendall(request)
        try:
            return link.recv(100)
        except ConnectionResetError:
            return b""


def test_it_passes_everything_on_until_armed(received: tuple[int, list[bytes]]) -> None:
    with CuttingProxy(received[0]) as proxy:
        assert [ask(proxy), ask(proxy)] == [b"REQUEST", b"REQUEST"]
        assert proxy.cut == 0


@pytest.mark.parametrize(
    ("where", "arrived", "answered"),
    [("request", [], b""), ("half_request", [b"req"], b""), ("reply", [b"request"], b"")],
)
def test_it_cuts_once_where_it_is_told_to(
    received: tuple[int, list[bytes]], where: str, arrived: list[bytes], answered: bytes
) -> None:
    with CuttingProxy(received[0]) as proxy:
        proxy.arm(where)

        assert ask(proxy) == answered
        assert ask(proxy, b"next") == b"NEXT"
        assert received[1][:-1] == arrived
        assert proxy.cut == 1


def test_a_closed_port_is_a_closed_connection(received: tuple[int, list[bytes]]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    with CuttingProxy(port) as proxy:
        assert ask(proxy) == b""
