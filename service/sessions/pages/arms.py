"""The arms of a session with what is counted of each, a page at a time."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from ...commit.batch import Journal
from ...cooperative import Body, FairYield, answer_body, json_chunks, run_in_thread_if_large
from ...engine.arm_run import ArmRun
from ...engine.run import Run
from ...errors import InvalidRequestError, UnknownSegmentError
from ...learners.base import FloatArray
from ..read import Reader
from .arm_counts import ReadCounts
from .segments import find

ArmSort = Literal["index", "-index", "probability", "-probability", "acts", "-acts", "mean", "-mean"]
_SORTS: tuple[str, ...] = get_args(ArmSort)
_CURSOR = re.compile("([a-z-]+)~([0-9]{1,9})")
KEYS_AT_ONCE = 500
"""Arms whose keys are worked out between two looks at the time."""
MAX_TRIES = 3
"""Times that a page is read again because another version was committed in between."""


async def arms_page(
    reader: Reader,
    session_id: str,
    cursor: str | None,
    limit: int,
    sort: ArmSort,
    segment: str | None = None,
) -> Body:
    """Return the JSON of a page of live arms: see ``Sessions.arms``.

    Parameters
    ----------
    reader : reads the session
    session_id : of the session, which is over arms
    cursor : ``next_cursor`` of the page before in the same order; None for the first
    limit : arms on the page, at most
    sort : the order; with a hyphen, descending
    segment : shows the probabilities of this segment alone, sorted by index or probability; None for the session

    Raises
    ------
    InvalidRequestError
        for a session over points, a cursor of another list, or an order that segments do not have.
    UnknownSegmentError
        where the session does not keep this segment.
    UnknownSessionError, StateCorruptError, StoreUnavailableError
    """
    start = _start(cursor, sort)
    if segment is not None:
        return await _of_segment(reader, session_id, start, limit, sort, segment)
    for _ in range(MAX_TRIES):
        journal = Journal()
        snapshot, cached = await reader.settled(session_id, journal)
        run, spec = _over_arms(cached.run), cached.stored.specification
        added = await journal.counts(spec.losses, spec.default_loss, FairYield())
        outstanding = run.ledger.by_arm if cached.has_packed_counts else None
        counts = ReadCounts(reader.store, session_id, spec.losses, added, outstanding)
        probabilities = np.asarray(run.probabilities)
        order = await _ordered(run, probabilities, counts, sort)
        arms = order[start : start + limit].tolist()
        await counts.read(arms)
        if counts.versions <= {snapshot.version}:
            break
    following = f"{sort}~{start + limit}" if start + limit < len(order) else None
    rows, fair_yield = [], FairYield()
    for arm in arms:
        rows.append(_row(run, float(probabilities[arm]), counts, arm))
        await fair_yield()
    return answer_body(json_chunks({"arms": rows, "next_cursor": following}))


async def _of_segment(reader: Reader, session_id: str, start: int, limit: int, sort: ArmSort, segment: str) -> Body:
    """Return the same of one segment: its probabilities alone."""
    if sort.removeprefix("-") not in ("index", "probability"):
        raise InvalidRequestError.of("sort", "of a segment arms are sorted by index or probability")
    found = await find(reader, session_id, [segment])
    if segment not in found.segments:
        raise UnknownSegmentError
    run, probabilities = found.run, found.run.probabilities_of(found.segments[segment])
    live = np.array(run.arms.live)
    order = await _arranged(live, probabilities[live] if "probability" in sort else live, sort)
    following = f"{sort}~{start + limit}" if start + limit < len(order) else None
    arms = order[start : start + limit].tolist()
    rows = [_named(run, arm) | {"probability": float(probabilities[arm])} for arm in arms]
    return answer_body(json_chunks({"arms": rows, "next_cursor": following}))


def _over_arms(run: Run) -> ArmRun:
    if not isinstance(run, ArmRun):
        raise InvalidRequestError.of("session_id", "this session is over points, and has no arms")
    return run


def _start(cursor: str | None, sort: ArmSort) -> int:
    """Return the number of arms on the pages before."""
    if cursor is None:
        return 0
    found = _CURSOR.fullmatch(cursor)
    if found is None or found[1] not in _SORTS:
        raise InvalidRequestError.of("cursor", "is not one this service gave")
    if found[1] != sort:
        raise InvalidRequestError.of("cursor", f"is one of the list sorted by {found[1]}")
    return int(found[2])


async def _ordered(run: ArmRun, probabilities: FloatArray, counts: ReadCounts, sort: ArmSort) -> NDArray[np.int64]:
    """Return the indexes of the live arms in their order; ties by index, arms without a mean last."""
    live, by = np.array(run.arms.live), sort.removeprefix("-")
    if by == "probability":
        return await _arranged(live, probabilities[live], sort)
    if by == "index":
        return await _arranged(live, live, sort)
    await counts.read(run.arms.live)
    key = counts.acts if by == "acts" else counts.mean
    return await _arranged(live, await _keys(key, run.arms.live), sort)


async def _keys(key: Callable[[int], float | None], arms: Sequence[int]) -> FloatArray:
    """Return what arms are sorted by, made some at a time; not a number where an arm has nothing."""
    keys, fair_yield = [], FairYield()
    for at in range(0, len(arms), KEYS_AT_ONCE):
        some = map(key, arms[at : at + KEYS_AT_ONCE])
        keys.append(np.array([np.nan if each is None else each for each in some], dtype=np.float64))
        await fair_yield()
    return np.concatenate(keys)


async def _arranged(live: NDArray[np.int64], keys: NDArray[Any], sort: ArmSort) -> NDArray[np.int64]:
    """Return the indexes in the order of their keys; a missing mean is NaN, which sorts last either way."""
    signed = -keys if sort.startswith("-") else keys
    order: NDArray[np.int64] = live[await run_in_thread_if_large(keys.nbytes, np.argsort, signed, kind="stable")]
    return order


def _named(run: ArmRun, arm: int) -> dict[str, Any]:
    names = run.arms.names
    label = {} if names is None else {"label": names[arm]}
    return {"arm": arm, **label, "paused": arm in run.arms.paused}


def _row(run: ArmRun, probability: float, counts: ReadCounts, arm: int) -> dict[str, Any]:
    row = counts.of(arm)
    return {
        **_named(run, arm),
        "probability": probability,
        "acts": int(row.acts),
        "outstanding": int(run.ledger.by_arm[arm]),
        "feedbacks": int(row.feedbacks),
        "expired": int(row.expired),
        f"mean_{run.params.losses.word}": counts.mean(arm),
    }
