"""Where sessions are kept, chosen by URL."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from .base import Store, StoreOptions

PLAIN_URL = re.compile(r"redis://([\w.~%:-]*@)?[A-Za-z0-9.-]+(:([1-9]\d{0,3}|[1-5]\d{4}))?(/\d{0,9})?", re.ASCII)
"""A server, perhaps with user, password, port and database. ``open_store`` takes every such URL."""


def open_store(url: str, *, options: StoreOptions | None = None) -> Store:
    """Open the store at a URL; nothing is connected before the first call.

    Parameters
    ----------
    url : memory://, redis://, unix://, redis+sentinel:// or redis+cluster://, or with TLS rediss://,
        rediss+sentinel:// or rediss+cluster://
    options : key prefix, limits and timeouts; None for the defaults

    Raises
    ------
    ValueError
        for a URL of another kind, or one that can't be read; the text never shows its password.
    """
    return _kind_of(url).open(url, options or StoreOptions())


def check_url(url: str) -> None:
    """Refuse a URL that ``open_store`` refuses; of a plain one redis-py is not asked, nor imported.

    Parameters
    ----------
    url : as in ``open_store``

    Raises
    ------
    ValueError
        as ``open_store``.
    """
    if not PLAIN_URL.fullmatch(url):
        open_store(url)


def check_capabilities(url: str, *, workers: int, min_replicas: int) -> None:
    """Refuse settings that the store at a URL cannot fulfil; nothing is opened.

    Parameters
    ----------
    url : as in ``open_store``, or with embedded:
    workers : worker processes that share the store
    min_replicas : replicas that must acknowledge a commit; 0 waits for none

    Raises
    ------
    ValueError
        where several workers can't share the store, or it has no replicas to wait for, or the URL is of no kind.
    """
    kind = _kind_of(url)
    if workers > 1 and not kind.many_processes:
        raise ValueError("memory:// keeps sessions in one process: use it with one worker, or another store")
    if min_replicas and not kind.replicas:
        raise ValueError("embedded: and memory:// have no replicas: BANDIT_MIN_REPLICAS is for a Redis")


class _Kind(NamedTuple):
    """What the stores of one scheme can do."""

    open: Callable[[str, StoreOptions], Store]
    many_processes: bool = True
    """Whether several worker processes can share the sessions."""
    replicas: bool = True
    """Whether a commit can wait for replicas."""


def _kind_of(url: str) -> _Kind:
    scheme = url.partition(":")[0].lower()
    if scheme not in _SCHEMES:
        raise ValueError(f"the store URL begins with one of {', '.join(f'{name}:' for name in sorted(_SCHEMES))}")
    return _SCHEMES[scheme]


# Each kind of store is imported by the processes that open one: redis-py takes a tenth of the import of a worker.


def _memory(url: str, options: StoreOptions) -> Store:
    if url.partition(":")[2] not in {"", "//"}:
        raise ValueError("memory:// is the whole of the store URL")
    from .memory import MemoryStore

    return MemoryStore(options)


def _embedded(_url: str, _options: StoreOptions) -> Store:
    raise ValueError("the embedded store is started by the parent process, which hands its workers a unix:// URL")


def _redis(url: str, options: StoreOptions) -> Store:
    from .redis.store import RedisStore

    return RedisStore(url, options)


_SCHEMES: dict[str, _Kind] = {
    "memory": _Kind(_memory, many_processes=False, replicas=False),
    "embedded": _Kind(_embedded, replicas=False),
    "redis": _Kind(_redis),
    "rediss": _Kind(_redis),
    "redis+sentinel": _Kind(_redis),
    "redis+cluster": _Kind(_redis),
    "rediss+sentinel": _Kind(_redis),
    "rediss+cluster": _Kind(_redis),
    "unix": _Kind(_redis),
}
