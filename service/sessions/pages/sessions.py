"""Sessions, a page at a time, from what their commits write for lists: no state is read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ...cooperative import COMPACT, Body, FairYield, answer_body
from ...engine.run import SlotRun
from ...errors import InvalidRequestError, StateCorruptError, UnknownSessionError
from ...serialization import summary as listed_fields
from ...store.base import Listed
from ..read import Reader
from ..views import summary, time_text
from . import MAX_PAGE


async def sessions_page(reader: Reader, cursor: str | None, limit: int, prefix: str) -> Body:
    """Return the JSON of a page of sessions: see ``Sessions.list``.

    Parameters
    ----------
    reader : reads those of which the store has nothing for lists, as an earlier program wrote them
    cursor : ``next_cursor`` of the page before; None for the first
    limit : sessions on the page; of more than ``MAX_PAGE``, ``MAX_PAGE``
    prefix : what the listed ids begin with; empty for all

    Raises
    ------
    InvalidRequestError
        for a cursor of another list.
    StoreUnavailableError
        where the store can't be reached.
    """
    try:
        page = await reader.store.list(cursor, min(limit, MAX_PAGE), prefix)
    except ValueError as error:
        raise InvalidRequestError.of("cursor", "is not one this service gave") from error
    texts, fair_yield = [], FairYield()
    for session in page.sessions:
        text = _written_text(session) or await _text_of_state(reader, session.session_id)
        if text is not None:
            texts.append(text)
        await fair_yield()
    return answer_body(_page(texts, page.next_cursor))


def _page(texts: Sequence[str], next_cursor: str | None) -> Iterator[str]:
    """Yield the JSON of a page in parts, a session in each."""
    start = '{"sessions":['
    for text in texts:
        yield start
        yield text
        start = ","
    yield f'{"" if texts else start}],"next_cursor":{COMPACT.encode(next_cursor)}}}'


def _written_text(session: Listed) -> str | None:
    """Return the JSON of what the last commit wrote; None also where somebody wrote numbers that JSON has not."""
    try:
        return None if (shown := _summary(session)) is None else COMPACT.encode(shown)
    except ValueError:
        return None


def _summary(session: Listed) -> dict[str, Any] | None:
    """Return what the last commit wrote for lists; None where an earlier program made it."""
    fields = listed_fields.decode(session.about, session.summary, session.version)
    if fields is None or session.created_at is None:
        return None
    times = {
        "version": session.version,
        "created_at": time_text(session.created_at),
        "expires_at": None if session.expires_at is None else time_text(session.expires_at),
    }
    return {"session_id": session.session_id, **fields, **times}


async def _text_of_state(reader: Reader, session_id: str) -> str | None:
    """Return the same, of the whole state; None where the session has been deleted since."""
    try:
        snapshot, cached = await reader.load(session_id)
        shown = listed_fields.shortened(summary(session_id, snapshot, cached))
        # What a distribution by slots is made of stands beside the state, and is not read for a list.
        effective = None if isinstance(cached.run, SlotRun) else listed_fields.effective_arms_of(cached.run)
        return COMPACT.encode(shown if effective is None else {**shown, "effective_arms": effective})
    except UnknownSessionError:
        return None
    except StateCorruptError as error:
        return COMPACT.encode({"session_id": session_id, "code": error.code})
