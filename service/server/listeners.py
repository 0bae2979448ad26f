"""The listening sockets: one for each worker, all on one address."""

from __future__ import annotations

import ipaddress
import os
import socket
import sys

BACKLOG = 2048
"""Connections that may wait for a worker; the kernel may allow fewer."""


class AddressError(Exception):
    """The service can't listen on the address; the text says why."""


def listen(host: str, port: int, count: int) -> list[socket.socket]:
    """Open the listening sockets; clients may connect before the first worker serves.

    On Linux the kernel spreads new connections evenly over the sockets (a shared socket would give a burst of
    connections to one worker). A socket outlives its worker, so connections that wait for it are not lost.

    Parameters
    ----------
    port : 0 chooses a free port
    count : number of workers

    Returns
    -------
    ``count`` sockets on Linux; elsewhere one, which all workers share.

    Raises
    ------
    AddressError
        if the address is unknown, forbidden or in use.
    """
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[
            0
        ]
        return _on_one_port(family, address[:2], count)  # type: ignore[arg-type]
    except OSError as error:
        reason = error.strerror if isinstance(error, socket.gaierror) else os.strerror(error.errno or 0)
        raise AddressError(f"can't listen on {show(host, port)}: {reason}") from error


def show(host: str, port: int) -> str:
    """Return host and port as a URL has them."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _on_one_port(family: int, address: tuple[str, int], count: int) -> list[socket.socket]:
    if count == 1 or sys.platform != "linux":
        return [socket.create_server(address, family=family, backlog=BACKLOG)]
    first = socket.socket(family)
    first.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if family == socket.AF_INET6:
        first.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    first.bind(address)
    # Only after bind: with this option bind would succeed on an address on which another service listens.
    first.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    first.listen(BACKLOG)
    address = (address[0], first.getsockname()[1])
    others = [
        socket.create_server(address, family=family, backlog=BACKLOG, reuse_port=True) for _ in range(1, count)
    ]
    return [first, *others]


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach the address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
