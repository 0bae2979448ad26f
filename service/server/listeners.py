"""The address of the service: bound by the supervisor, shared by all workers."""

from __future__ import annotations

import errno
import ipaddress
import os
import socket

from .pool import listen, refuse


class AddressError(Exception):
    """The service can't listen on the address; the text says why."""


def bind(host: str, port: int) -> socket.socket:
    """Bind the socket that all workers share, so that no other service can; it refuses until a worker listens.

    Parameters
    ----------
    host : name or address of this machine; IPv6 without brackets
    port : 0 chooses a free port

    Raises
    ------
    AddressError
        if the address is unknown, forbidden or in use.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, (address, *_) = found[0]
        listener = _bound(family, address, port)
        if port == 0:
            # Linux forgets a port that it chose itself when a socket ends to listen, so it is bound by its number.
            chosen, listener = listener, _bound(family, address, listener.getsockname()[1])
            chosen.close()
        # To listen for a moment finds out whether another service does, and makes Linux keep the address for it.
        listen(listener)
        refuse(listener)
        return listener
    except OSError as error:
        reason = error.strerror if isinstance(error, socket.gaierror) else os.strerror(error.errno or 0)
        advice = "; choose another with --port" if error.errno == errno.EADDRINUSE else ""
        raise AddressError(f"can't listen on {show(host, port)}: {reason}{advice}") from error


def show(host: str, port: int) -> str:
    """Return host and port as a URL has them.

    Parameters
    ----------
    host : name or address; IPv6 without brackets
    port : where the service listens
    """
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _bound(family: int, address: object, port: int) -> socket.socket:
    listener = socket.socket(family)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.bind((address, port))
    except OSError:
        listener.close()
        raise
    return listener


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach the address.

    Parameters
    ----------
    host : address or name; of the names only ``localhost`` counts
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
