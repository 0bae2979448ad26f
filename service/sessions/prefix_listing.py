"""Lists of sessions by a prefix of their ids: an API key may be allowed to see only these."""

from __future__ import annotations

import re
from itertools import islice

from ..store.base import Page, Store

_CURSOR = "after~"
_LOOKS = re.compile(r"after~[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_PAGE = 1000


async def ids_with_prefix(store: Store, prefix: str) -> list[str]:
    """The ids that begin with a prefix, in order; this lists all sessions of the store."""
    found: set[str] = set()
    cursor = None
    while True:
        page = await store.list(cursor, _PAGE)
        found.update(one for one in page.session_ids if one.startswith(prefix))
        cursor = page.next_cursor
        if cursor is None:
            return sorted(found)


async def page_with_prefix(store: Store, prefix: str, cursor: str | None, limit: int) -> Page:
    """A page of the ids that begin with a prefix; unlike a store's cursors, its cursor holds no other ids.

    Raises
    ------
    ValueError
        for a cursor of another list.
    """
    after = "" if cursor is None else cursor.removeprefix(_CURSOR)
    if cursor is not None and not (_LOOKS.fullmatch(cursor) and after.startswith(prefix)):
        raise ValueError("not a cursor of this list")
    some = list(islice((one for one in await ids_with_prefix(store, prefix) if one > after), limit + 1))
    return Page(some[:limit], f"{_CURSOR}{some[limit - 1]}" if len(some) > limit else None)
