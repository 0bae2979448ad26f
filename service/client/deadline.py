"""Connections of the blocking client that keep a call's deadline.

httpx bounds each step, and a step may be many: a server that sends its head a byte at a time would hold a call for
as long as it likes, and nothing bounds how long the system looks up a host's address.
"""

from __future__ import annotations

import ssl
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import Any
from urllib.request import getproxies

import httpcore
import httpx

PIECE = 65_536
"""Bytes written in one step."""


class Seconds(float):
    """Seconds that are left, and the time of the monotonic clock at which none are."""

    deadline: float

    @classmethod
    def until(cls, deadline: float, least: float) -> Seconds:
        """Return the seconds until a time.

        Parameters
        ----------
        deadline : in seconds of the monotonic clock
        least : is returned where fewer are left
        """
        seconds = cls(max(least, deadline - time.monotonic()))
        seconds.deadline = deadline
        return seconds


def _left(timeout: float | None, ended: type[httpx.TimeoutException]) -> float | None:
    """Return the seconds that are left of ``timeout`` by now.

    Raises
    ------
    httpx.TimeoutException
        of the kind ``ended``, where none are.
    """
    if not isinstance(timeout, Seconds):
        return timeout
    left = timeout.deadline - time.monotonic()
    if left <= 0:
        raise ended("the time for this call is over")
    return left


class _Stream(httpcore.NetworkStream):
    """A connection that looks at the clock before each step."""

    def __init__(self, stream: httpcore.NetworkStream) -> None:
        self._stream = stream

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, _left(timeout, httpx.ReadTimeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        for start in range(0, len(buffer), PIECE):
            self._stream.write(buffer[start : start + PIECE], _left(timeout, httpx.WriteTimeout))

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        left = _left(timeout, httpx.ConnectTimeout)
        return _Stream(self._stream.start_tls(ssl_context, server_hostname, left))

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)

    def close(self) -> None:
        self._stream.close()


class _Backend(httpcore.SyncBackend):
    """Connects in a thread of its own, because looking up an address can't be bounded."""

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.NetworkStream:
        def connect() -> httpcore.NetworkStream:
            return httpcore.SyncBackend.connect_tcp(self, host, port, timeout, local_address, socket_options)

        return _Stream(_in_thread(connect, _left(timeout, httpx.ConnectTimeout)))


def _in_thread(connect: Callable[[], httpcore.NetworkStream], seconds: float | None) -> httpcore.NetworkStream:
    """Connect within so many seconds; a connection that comes later is closed.

    Raises
    ------
    httpx.ConnectTimeout
        where there is none in time.
    httpx.ConnectError
        where the process can have no more threads.
    """
    connected: Future[httpcore.NetworkStream] = Future()

    def run() -> None:
        try:
            connected.set_result(connect())
        except Exception as error:
            connected.set_exception(error)

    try:
        threading.Thread(target=run, name="delayed-bandits-connect", daemon=True).start()
    except RuntimeError as error:
        raise httpx.ConnectError(str(error)) from error
    try:
        return connected.result(seconds)
    except TimeoutError:
        connected.add_done_callback(_close_late)
        raise httpx.ConnectTimeout("no connection in time") from None


def _close_late(connected: Future[httpcore.NetworkStream]) -> None:
    if connected.exception() is None:
        connected.result().close()


class DeadlineTransport(httpx.HTTPTransport):
    """httpx's own transport, on connections that keep ``Seconds``.

    Parameters
    ----------
    verify : as httpx takes it
    limits : of connections
    """

    def __init__(self, verify: Any, limits: httpx.Limits) -> None:
        context = verify if isinstance(verify, ssl.SSLContext) else httpx.create_ssl_context(verify)
        super().__init__(verify=context, limits=limits)
        self._pool = httpcore.ConnectionPool(
            ssl_context=context,
            max_connections=limits.max_connections,
            max_keepalive_connections=limits.max_keepalive_connections,
            keepalive_expiry=limits.keepalive_expiry,
            network_backend=_Backend(),
        )


def transports(verify: Any, limits: httpx.Limits) -> dict[str, httpx.BaseTransport]:
    """Return what httpx is to use where it uses no proxy of the environment.

    Parameters
    ----------
    verify : as httpx takes it
    limits : of connections, as httpx takes them

    Returns
    -------
    Transports by pattern of URLs, as ``mounts`` of httpx's clients; empty where a proxy is used for all.
    """
    return {} if "all" in getproxies() else {"all://": DeadlineTransport(verify, limits)}
