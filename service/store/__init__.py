"""Where sessions are kept, chosen by URL."""

import re

from .base import Store, StoreOptions

PLAIN_URL = re.compile(r"redis://([\w.~%:-]*@)?[A-Za-z0-9.-]+(:([1-9]\d{0,3}|[1-5]\d{4}))?(/\d{0,9})?", re.ASCII)
"""A server, perhaps with user, password, port and database. ``open_store`` takes every such URL."""
MEMORY, EMBEDDED = "memory", "embedded"
_OF_REDIS = [f"{scheme}{kind}" for scheme in ("redis", "rediss") for kind in ("", "+sentinel", "+cluster")]
SCHEMES = frozenset({MEMORY, EMBEDDED, "unix", *_OF_REDIS})


def _scheme_of(url: str) -> str:
    scheme = url.partition(":")[0].lower()
    if scheme not in SCHEMES:
        raise ValueError(f"the store URL begins with one of {', '.join(f'{name}:' for name in sorted(SCHEMES))}")
    return scheme


def open_store(url: str, *, options: StoreOptions | None = None) -> Store:
    """Open the store at a URL of one of the ``SCHEMES``; nothing is connected before the first call.

    Raises
    ------
    ValueError
        for a URL of another kind, or one that can't be read; the text never shows its password.
    """
    scheme = _scheme_of(url)
    if scheme == EMBEDDED:
        text = "the embedded store is started by the parent process, which hands its workers a unix:// URL"
        raise ValueError(text)
    # Each kind is imported by the processes that open one: redis-py takes a tenth of the import of a worker.
    if scheme == MEMORY:
        if url.partition(":")[2] not in {"", "//"}:
            raise ValueError("memory:// is the whole of the store URL")
        from .memory import MemoryStore

        return MemoryStore(options)
    from .redis.store import RedisStore

    return RedisStore(url, options)


def check_url(url: str) -> None:
    """Refuse a URL as ``open_store`` does; of a plain one redis-py is not asked, nor imported."""
    if not PLAIN_URL.fullmatch(url):
        open_store(url)


def check_capabilities(url: str, *, workers: int, min_replicas: int) -> None:
    """Refuse settings that the store at a URL cannot fulfil; nothing is opened.

    Raises
    ------
    ValueError
        where several workers can't share the store, or it has no replicas to wait for, or the URL is of no kind.
    """
    scheme = _scheme_of(url)
    if workers > 1 and scheme == MEMORY:
        raise ValueError("memory:// keeps sessions in one process: use it with one worker, or another store")
    if min_replicas and scheme in {MEMORY, EMBEDDED}:
        raise ValueError("embedded: and memory:// have no replicas: BANDIT_MIN_REPLICAS is for a Redis")
