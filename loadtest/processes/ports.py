"""Local ports that servers can be given."""

from __future__ import annotations

import random
import socket


def free_port() -> int:
    """Return a free local port, below those that systems give to outgoing connections.

    A process that is started again on its port would else find it taken by a connection now and then.
    """
    while True:
        port = random.randrange(10_000, 32_000)  # noqa: S311 - no secret
        if is_free(port):
            return port


def is_free(port: int) -> bool:
    """Whether a server can be bound to a local port."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
