"""What can be read of sessions: views, lists and exports, as JSON."""

from __future__ import annotations

import re

from ..cooperative import Body
from ..errors import UnknownSessionError
from ..models.specification import SESSION_ID_PATTERN
from ..store.base import Store
from .pages.arms import ArmSort, arms_page
from .pages.decisions import decisions_page
from .pages.history import history_page
from .pages.segments import SegmentSort, segment_view, segments_page
from .pages.sessions import sessions_page
from .read import Reader
from .transfer import document

is_id = re.compile(SESSION_ID_PATTERN).fullmatch
"""Match what can be the id of a session."""


class SessionQueries:
    """Reads sessions for requests; nothing is changed.

    Parameters
    ----------
    store : has the sessions
    reader : of the same store, with the worker's cache
    max_import_bytes : how long an exported session may be, so that it can be imported again
    """

    def __init__(self, store: Store, reader: Reader, max_import_bytes: int) -> None:
        self._store = store
        self._reader = reader
        self._max_import_bytes = max_import_bytes

    async def view(self, session_id: str, segment: str | None = None) -> Body:
        """Return the JSON of a session as it is now, with due decisions settled; nothing is committed.

        Parameters
        ----------
        session_id : of the session; one that no session can have is unknown
        segment : shows what is of this segment alone in place of the same of the session; None for the session

        Raises
        ------
        UnknownSegmentError, InvalidRequestError
            where the session does not keep this segment, or has none.
        UnknownSessionError
            where there is no such session.
        StateCorruptError
            where its stored bytes can't be read.
        StoreUnavailableError
            where the store can't be reached.
        """
        check_id(session_id)
        if segment is not None:
            return await segment_view(self._reader, session_id, segment)
        return await self._reader.view(session_id)

    async def segments(self, session_id: str, cursor: str | None, limit: int, sort: SegmentSort) -> Body:
        """Return the JSON of a page of the segments that a session keeps.

        Parameters
        ----------
        session_id : of the session, which has segments
        cursor : ``next_cursor`` of the page before in the same order; None for the first
        limit : segments on the page, at most
        sort : the order; with a hyphen, descending

        Raises
        ------
        InvalidRequestError
            for a session without segments, an order for which they are too many, or a cursor of another list.
        ServiceError
            what ``view`` raises.
        """
        check_id(session_id)
        return await segments_page(self._reader, session_id, cursor, limit, sort)

    async def list(self, cursor: str | None, limit: int, prefix: str = "") -> Body:
        """Return the JSON of a page of sessions: all of a view but probabilities and points.

        Parameters
        ----------
        cursor : ``next_cursor`` of the page before; None for the first
        limit : sessions on the page, at most
        prefix : what the listed ids begin with

        Raises
        ------
        InvalidRequestError
            for a cursor of another list.
        StoreUnavailableError
            where the store can't be reached.
        """
        return await sessions_page(self._reader, cursor, limit, prefix)

    async def arms(
        self, session_id: str, cursor: str | None, limit: int, sort: ArmSort, segment: str | None = None
    ) -> Body:
        """Return the JSON of a page of a session's live arms, with what is counted of each.

        Due decisions are settled first, as in a view. Counts of a session that an earlier program created begin at
        its first commit by this one.

        Parameters
        ----------
        session_id : of the session, which is over arms
        cursor : ``next_cursor`` of the page before in the same order; None for the first
        limit : arms on the page, at most
        sort : the order; with a hyphen, descending
        segment : shows the probabilities of this segment alone; None for the session's, and its counts

        Raises
        ------
        InvalidRequestError
            for a session over points, or a cursor of another list.
        ServiceError
            what ``view`` raises.
        """
        check_id(session_id)
        return await arms_page(self._reader, session_id, cursor, limit, sort, segment)

    async def decisions(self, session_id: str, cursor: str | None, limit: int) -> Body:
        """Return the JSON of a page of a session's decision log, oldest first.

        Parameters
        ----------
        session_id : of the session, which keeps a log
        cursor : ``next_cursor`` of the page before; None for the first
        limit : entries on the page, at most

        Raises
        ------
        NoDecisionLogError
            where the session keeps none.
        InvalidRequestError
            for a cursor of another list.
        ServiceError
            what ``view`` raises.
        """
        check_id(session_id)
        return await decisions_page(self._store, session_id, cursor, limit)

    async def history(self, session_id: str) -> Body:
        """Return the JSON of a session's history: samples of its counts and of its learner, oldest first.

        Raises
        ------
        ServiceError
            what ``view`` raises.
        """
        check_id(session_id)
        return await history_page(self._reader, session_id)

    async def export(self, session_id: str) -> Body:
        """Return the JSON of a whole session, seed included: see ``transfer.document``.

        Raises
        ------
        PayloadTooLargeError
            where it would be longer than an import may be.
        ServiceError
            what ``view`` raises.
        """
        check_id(session_id)
        return await document.export(self._store, session_id, self._max_import_bytes)

    def now(self) -> float:
        """Return Unix seconds by the store's clock."""
        return self._store.now()


def check_id(session_id: str) -> None:
    """Refuse what no session can have as its id.

    Raises
    ------
    UnknownSessionError
    """
    if not is_id(session_id):
        raise UnknownSessionError
