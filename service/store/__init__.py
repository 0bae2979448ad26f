"""Where sessions are kept, chosen by URL."""

from __future__ import annotations

from collections.abc import Callable

from .base import Store
from .memory import MemoryStore
from .options import StoreOptions
from .redis.cluster_store import ClusterStore
from .redis.store import RedisStore


def open_store(url: str, *, options: StoreOptions | None = None) -> Store:
    """Open the store at a URL; nothing is connected before the first call.

    Parameters
    ----------
    url : memory://, redis://, unix://, redis+sentinel:// or redis+cluster://, or with TLS rediss://,
        rediss+sentinel:// or rediss+cluster://

    Raises
    ------
    ValueError
        for a URL of another kind, or one that can't be read; the text never shows its password.
    """
    scheme = url.partition(":")[0].lower()
    if scheme not in _SCHEMES:
        raise ValueError(f"the store URL begins with one of {', '.join(f'{name}:' for name in sorted(_SCHEMES))}")
    return _SCHEMES[scheme](url, options or StoreOptions())


def _memory(url: str, options: StoreOptions) -> Store:
    if url.partition(":")[2] not in {"", "//"}:
        raise ValueError("memory:// is the whole of the store URL")
    return MemoryStore(options)


def _embedded(_url: str, _options: StoreOptions) -> Store:
    raise ValueError("the embedded store is started by the parent process, which hands its workers a unix:// URL")


_SCHEMES: dict[str, Callable[[str, StoreOptions], Store]] = {
    "memory": _memory,
    "embedded": _embedded,
    "redis": RedisStore,
    "rediss": RedisStore,
    "redis+sentinel": RedisStore,
    "redis+cluster": ClusterStore,
    "rediss+sentinel": RedisStore,
    "rediss+cluster": ClusterStore,
    "unix": RedisStore,
}
