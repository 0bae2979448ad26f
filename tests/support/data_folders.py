"""Data folders of the embedded server, written, read and looked into."""

from collections.abc import Callable
from pathlib import Path

import redis

from service.store.embedded import EmbeddedServer

Started = Callable[..., EmbeddedServer]


def value(server: EmbeddedServer) -> object:
    with redis.Redis.from_url(server.url, protocol=2) as client:
        return client.get("key")


def write(server: EmbeddedServer) -> Path:
    """Write a key, stop the server, and return its folder."""
    with redis.Redis.from_url(server.url, protocol=2) as client:
        client.set("key", "value")
    server.stop()
    return server.folder


def contents(folder: Path) -> dict[str, bytes]:
    parts = (folder / "appendonlydir").iterdir()
    return {path.name: path.read_bytes() for path in parts}
