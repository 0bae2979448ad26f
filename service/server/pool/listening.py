"""Whether the shared socket listens: only while a worker can answer, so that clients are refused at once otherwise.

The supervisor binds the socket, and every worker inherits it. A worker lets it listen when it can answer; when no
worker is left, the supervisor ends that. Connections that wait in the kernel are reset then, and new ones refused.
"""

from __future__ import annotations

import socket
import sys

BACKLOG = 2048
"""Connections that may wait for a worker; the kernel may allow fewer."""


def listen(listener: socket.socket) -> None:
    """Let the socket listen; without effect where it does."""
    # Connections inherit it. Without it those that have ended would keep the address from the next service.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if not listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
        listener.listen(BACKLOG)


def refuse(listener: socket.socket) -> None:
    """Refuse connections from now on, and keep the address (Linux; elsewhere connections wait)."""
    if sys.platform != "linux":
        return
    # Linux lets another service bind the address of a socket that does not listen, unless this is off.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)
    if listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
        listener.shutdown(socket.SHUT_RD)
