"""The decision log of a session, a page at a time."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence

from ...cooperative import Body, answer_body
from ...errors import InvalidRequestError, NoDecisionLogError, StateCorruptError, UnknownSessionError
from ...store.base import LogEntry, Store
from ..views import time_text

_CURSOR = re.compile("[0-9]{1,15}-[0-9]{1,18}")


async def decisions_page(store: Store, session_id: str, cursor: str | None, limit: int) -> Body:
    """Return the JSON of a page of the decision log: see ``Sessions.decisions``.

    Parameters
    ----------
    store : has the log
    session_id : of the session
    cursor : ``next_cursor`` of the page before; None for the first
    limit : entries on the page, at most

    Raises
    ------
    InvalidRequestError
        for a cursor of another list.
    NoDecisionLogError
        where the session keeps none.
    UnknownSessionError, StateCorruptError, StoreUnavailableError
    """
    if cursor is not None and not _CURSOR.fullmatch(cursor):
        raise InvalidRequestError.of("cursor", "is not one this service gave")
    log = await store.read_log(session_id, cursor, limit + 1)
    if log is None:
        raise UnknownSessionError
    if not _keeps_log(log.about):
        raise NoDecisionLogError
    entries = log.entries[:limit]
    following = entries[-1].position if len(log.entries) > limit else None
    return answer_body(_page(entries, following))


def _keeps_log(about: bytes) -> bool:
    try:
        return json.loads(about or b"{}").get("decision_log") is not None
    except (ValueError, AttributeError) as error:
        raise StateCorruptError from error


def _page(entries: Sequence[LogEntry], following: str | None) -> Iterator[str]:
    start = '{"decisions":['
    for entry in entries:
        at = time_text(int(entry.position.partition("-")[0]) / 1000)
        yield f'{start}{entry.data.decode()[:-1]},"at":"{at}"}}'
        start = ","
    yield f'{start if not entries else ""}],"next_cursor":{json.dumps(following)}}}'
