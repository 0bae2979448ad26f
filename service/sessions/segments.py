"""The segments of a session: one of them, and all of them a page at a time."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple

from ..commit.batch import Journal
from ..commit.cache import CachedSession, with_segments
from ..cooperative import Body, FairYield, answer_body, json_chunks
from ..engine.segment_run import KeptSegment, KeptSegments, SegmentRun
from ..errors import InvalidRequestError, StateCorruptError, UnknownSegmentError, UnknownSessionError
from ..serialization.records import name_of
from ..serialization.summary import effective_arms, shown_mean, time_text
from ..store.base import Snapshot, Store
from .act import of_kind
from .views import Reader, check_id, fields_of

SegmentSort = Literal["segment", "-segment", "slots", "-slots", "mean", "-mean"]
MAX_SORTED = 1000
"""Most segments that are sorted by what they hold."""
MAX_TRIES = 10
"""Times that segments are read again because another version was committed in between."""
BYTES_AT_ONCE = 1_000_000
"""Bytes of segments read in one call, about."""
OVERHEAD_BYTES, ARM_BYTES = 500, 64


class Found(NamedTuple):
    """Some segments of a session, at one version."""

    snapshot: Snapshot
    cached: CachedSession
    run: SegmentRun
    segments: dict[str, KeptSegment]
    """Those that are kept, in the order in which they were asked for."""


async def find(reader: Reader, session_id: str, names: Sequence[str]) -> Found:
    """Read segments as they are now, with due decisions settled.

    Parameters
    ----------
    reader : reads the session
    session_id : of the session
    names : those that the session does not keep are left out of the result

    Raises
    ------
    InvalidRequestError
        for a session without segments.
    UnknownSessionError, StateCorruptError, StoreUnavailableError
    """
    for tried in range(1, MAX_TRIES + 1):
        snapshot, cached = await reader.settled(session_id, Journal())
        # What the worker that commits has read is its own.
        run = replace(of_kind(cached.run, SegmentRun), segments=KeptSegments())
        if (found := await reader.store.read_segments(session_id, [name_of(name) for name in names])) is None:
            raise UnknownSessionError
        if found.version != snapshot.version and tried < MAX_TRIES:
            continue
        try:
            read = await with_segments(cached._replace(run=run), names, found)
        except StateCorruptError:
            # A segment of a later version need not fit the arms of this one.
            if found.version == snapshot.version:
                raise
            continue
        known = of_kind(read.run, SegmentRun).segments.known
        kept = {name: run.fitted(each) for name in names if (each := known[name]) is not None}
        return Found(snapshot, cached, run, kept)
    raise StateCorruptError


async def segment_view(reader: Reader, session_id: str, name: str) -> Body:
    """Return the JSON of a session's view with what is of one segment in place of the same of the session.

    Parameters
    ----------
    reader : reads the session
    session_id : of the session
    name : of the segment

    Raises
    ------
    UnknownSegmentError
        where the session does not keep this segment.
    InvalidRequestError
        for a session without segments.
    UnknownSessionError, StateCorruptError, StoreUnavailableError
    """
    found = await find(reader, session_id, [name])
    if name not in found.segments:
        raise UnknownSegmentError
    kept, run = found.segments[name], found.run
    view = fields_of(session_id, found.snapshot, found.cached)
    view |= _row(run, name, kept) | {"probabilities": run.probabilities_of(kept)}
    return answer_body(json_chunks(view))


async def segments_page(reader: Reader, session_id: str, cursor: str | None, limit: int, sort: SegmentSort) -> Body:
    """Return the JSON of a page of the segments that a session keeps.

    Parameters
    ----------
    reader : reads the session
    session_id : of the session
    cursor : ``next_cursor`` of the page before in the same order; None for the first
    limit : segments on the page, at most
    sort : the order; with a hyphen, descending

    Raises
    ------
    InvalidRequestError
        for a session without segments, an order for which they are too many, or a cursor of another list.
    UnknownSessionError, StateCorruptError, StoreUnavailableError
    """
    check_id(session_id)
    place = _place(cursor, sort)
    if sort in ("segment", "-segment"):
        names = await _names(reader.store, session_id, place, limit + 1, backwards=sort.startswith("-"))
        rows = await _rows(reader, session_id, names[:limit])
        following = names[limit - 1] if len(names) > limit else None
    else:
        start = int(place or 0)
        every = await _sorted(reader, session_id, sort)
        rows, after = every[start : start + limit], start + limit
        following = str(after) if after < len(every) else None
    next_cursor = None if following is None else f"{sort}~{urlsafe_b64encode(following.encode()).decode()}"
    return answer_body(json_chunks({"segments": rows, "next_cursor": next_cursor}))


async def _names(
    store: Store, session_id: str, after: str | None, limit: int, *, backwards: bool = False
) -> Sequence[str]:
    start = None if after is None else name_of(after)
    names = await store.segment_names(session_id, start, limit, backwards=backwards)
    try:
        return [name.decode() for name in names]
    except UnicodeDecodeError as error:
        raise StateCorruptError from error


async def _rows(reader: Reader, session_id: str, names: Sequence[str]) -> list[dict[str, Any]]:
    """Return the rows of these segments, made some at a time; those dropped meanwhile are left out."""
    rows, fair_yield, done, n_at_once = list[dict[str, Any]](), FairYield(), 0, 1
    while done < max(len(names), 1):
        found = await find(reader, session_id, names[done : done + n_at_once])
        for name, kept in found.segments.items():
            rows.append(_row(found.run, name, kept))
            await fair_yield()
        done += n_at_once
        n_at_once = max(1, BYTES_AT_ONCE // (ARM_BYTES * len(found.run.arms.live) + OVERHEAD_BYTES))
    return rows


async def _sorted(reader: Reader, session_id: str, sort: SegmentSort) -> list[dict[str, Any]]:
    """Return all rows in their order; ties by name, segments without a mean last."""
    if len(names := await _names(reader.store, session_id, None, MAX_SORTED + 1)) > MAX_SORTED:
        raise InvalidRequestError.of("sort", f"of more than {MAX_SORTED} segments the list sorts by segment only")
    rows, sign = await _rows(reader, session_id, names), -1 if sort.startswith("-") else 1

    def key(row: dict[str, Any]) -> tuple[bool, float]:
        value = row["slots"] if sort.endswith("slots") else row.get("mean_loss", row.get("mean_reward"))
        return value is None, sign * (value or 0)

    return sorted(rows, key=key)


def _row(run: SegmentRun, name: str, kept: KeptSegment) -> dict[str, Any]:
    losses = run.params.losses
    return {
        "segment": name,
        "slots": kept.segment.slots,
        "feedbacks": kept.feedbacks,
        f"mean_{losses.word}": shown_mean(losses.posted(kept.mean_loss)) if kept.losses else None,
        "effective_arms": effective_arms(run.probabilities_of(kept)),
        "last_act_at": time_text(kept.last_act_at),
    }


def _place(cursor: str | None, sort: str) -> str | None:
    """Return where the page begins: behind a name, or after so many rows."""
    if cursor is None:
        return None
    made_for, _, place = cursor.partition("~")
    try:
        text = urlsafe_b64decode(place.encode("ascii")).decode()
        if not sort.endswith("segment"):
            int(text)
    except (Error, ValueError) as error:
        raise InvalidRequestError.of("cursor", "is not one this service gave") from error
    if made_for != sort:
        raise InvalidRequestError.of("cursor", f"is one of the list sorted by {made_for[:20]}")
    return text
