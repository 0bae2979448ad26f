"""Bodies of plain creations: those that differ in the session's id alone are checked once.

Services create a session for each user, and all of them alike: checking such a body takes 25 us.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

from ...models.specification import Specification
from ..schemas import CreateSession

_KEY = b'"session_id"'
_FIRST = re.compile(rb'\{ *"session_id" *: *"([A-Za-z0-9][A-Za-z0-9._-]{0,127})" *,')
_LAST = re.compile(rb', *"session_id" *: *"([A-Za-z0-9][A-Za-z0-9._-]{0,127})" *\}')
"""An id that is the first or the last field of the body, and so no part of another one."""


class Creation(NamedTuple):
    """A session to create."""

    session_id: str | None
    specification: Specification


def creations(read: Callable[[bytes], CreateSession | None]) -> Callable[[bytes], Creation | None]:
    """Make what reads bodies of creations, and remembers some.

    Parameters
    ----------
    read : reads a body; None where it is left to the route
    """

    @lru_cache(maxsize=64)
    def remembered(body: bytes) -> Creation | None:
        found = read(body)
        return None if found is None else Creation(found.session_id, found.specification)

    def read_creation(body: bytes) -> Creation | None:
        session_id, rest = _taken_apart(body)
        found = remembered(rest)
        return found if found is None or session_id is None else found._replace(session_id=session_id)

    return read_creation


def _taken_apart(body: bytes) -> tuple[str | None, bytes]:
    """Return the id of a session and the body without it; None and all of the body where that is not plain."""
    if b"\\" in body or body.count(_KEY) != 1:  # Without escapes each quote begins or ends a text.
        return None, body
    if found := _FIRST.match(body):
        return found[1].decode(), b"{" + body[found.end() :]
    if (start := body.rfind(b",")) > 0 and (found := _LAST.fullmatch(body, start)):
        return found[1].decode(), body[:start] + b"}"
    return None, body
