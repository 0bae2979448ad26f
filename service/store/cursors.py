"""Cursors of lists in the order of ids."""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterable, Sequence

_CURSOR = re.compile(r"after~[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


def after_of(cursor: str | None, prefix: str) -> str:
    """Return the id after which a page begins, '' for the first page.

    Parameters
    ----------
    cursor : as ``cursor_after`` made it; None for the first page
    prefix : what the listed ids begin with; '' for all ids

    Raises
    ------
    ValueError
        for a cursor of another list.
    """
    after = "" if cursor is None else cursor.removeprefix("after~")
    if cursor is not None and not (_CURSOR.fullmatch(cursor) and after.startswith(prefix)):
        raise ValueError("not a cursor of this list")
    return after


def cursor_after(session_id: str) -> str:
    """Return the cursor of the page that begins after an id."""
    return f"after~{session_id}"


def names_behind(names: Iterable[bytes], after: bytes | None, limit: int, *, backwards: bool) -> Sequence[bytes]:
    """Return the first ``limit`` of some names behind ``after``, in their order or backwards.

    Parameters
    ----------
    names : different from each other, in any order
    after : a name, itself left out; None to begin with the first, or with the last backwards
    limit : most names returned
    backwards : whether the order is turned round, so that smaller names are behind ``after``
    """
    if backwards:
        return heapq.nlargest(limit, (name for name in names if after is None or name < after))
    return heapq.nsmallest(limit, (name for name in names if after is None or name > after))
