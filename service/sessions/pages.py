"""Lists that are read a page at a time: sessions, arms of a session, entries of its decision log."""

from __future__ import annotations

import asyncio
import json
import re
import struct
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal, get_args
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from .. import errors
from ..commit.batch import Journal
from ..cooperative import COMPACT, Body, FairYield, answer_body, json_chunks, run_in_thread_if_large
from ..engine.arm_run import ArmRun
from ..engine.ledger import LossRange
from ..engine.run import FeatureRun, Run, SlotRun
from ..learners.base import FloatArray, IntArray
from ..learners.multiscale_tsallis import MultiscaleTsallis
from ..serialization import summary as listed_fields
from ..serialization.binary import CodecError
from ..serialization.state import NEWEST, read_shown
from ..serialization.summary import COUNTS, Sample, shown_mean, time_text
from ..serialization.summary import HintCode as HintCode
from ..store.base import ArmCounts, Listed, Log, Snapshot, Store, add_counts, counts_of
from .act import of_kind
from .history import PERIOD_SECONDS, dropped, place_of
from .segments import find
from .views import Reader, check_id, of_store, so_far, summary, sums_so_far

Left = asyncio.Future[None] | None
"""Whether a client has left."""
MAX_PAGE = 1000
"""Rows on a page, at most."""
LOOK_SECONDS = 0.5
"""How long sessions with a hint are sought for one page."""


# -- Sessions, a page at a time, from what seldom changes and the heads of their states.


async def sessions_page(
    reader: Reader, cursor: str | None, limit: int, prefix: str, hint: HintCode | None = None
) -> Body:
    """Return the JSON of a page of sessions.

    Parameters
    ----------
    reader : reads those of which one of these was damaged, or is of a newer version
    cursor : ``next_cursor`` of the page before; None for the first
    limit : sessions on the page; of more than ``MAX_PAGE``, ``MAX_PAGE``
    prefix : what the listed ids begin with; empty for all
    hint : lists the sessions with this hint alone, those found in ``LOOK_SECONDS``; None for all

    Raises
    ------
    InvalidRequestError
        for a cursor of another list.
    StoreUnavailableError
        where the store can't be reached.
    """
    texts, fair_yield, until = list[str](), FairYield(), time.monotonic() + (0 if hint is None else LOOK_SECONDS)
    while True:
        try:
            page = await reader.store.list(cursor, min(limit, MAX_PAGE) - len(texts), prefix)
        except ValueError as error:
            raise errors.InvalidRequestError.of("cursor", "is not one this service gave") from error
        for session in page.sessions:
            text = _written_text(session) or await _text_of_state(reader, session.session_id)
            # In no text that a client chose there is a quotation mark without a backslash.
            if text is not None and (hint is None or f'{{"code":"{hint}",' in text):
                texts.append(text)
            await fair_yield()
        cursor = page.next_cursor
        if cursor is None or len(texts) == min(limit, MAX_PAGE) or time.monotonic() >= until:
            return answer_body(_page("sessions", texts, cursor))


def _page(name: str, rows: Iterable[str], next_cursor: str | None, **more: Any) -> Iterator[str]:
    """Yield the JSON of a page in parts, a row in each; ``more`` are fields behind ``next_cursor``."""
    separator = ""
    yield f'{{"{name}":['
    for row in rows:
        yield f"{separator}{row}"
        separator = ","
    yield f"],{COMPACT.encode({'next_cursor': next_cursor, **more})[1:]}"


def _checked(entry: bytes) -> str:
    """Return an entry of a log, an object that ends in its brace; StateCorruptError for what somebody wrote."""
    try:
        if "kind" in json.loads(entry) and entry.endswith(b"}"):
            return entry.decode()
    except (ValueError, TypeError, RecursionError):
        pass
    raise errors.StateCorruptError


@lru_cache(maxsize=MAX_PAGE)  # Lists are read again and again, and most sessions are idle meanwhile.
def _written_text(session: Listed) -> str | None:
    """Return the JSON of what the last commit wrote; None where this program does not write such bytes."""
    session_id, version, created_at, expires_at, about, head = session
    if (fields := listed_fields.decode(about, head)) is None or created_at is None:
        return None
    stored = Snapshot(version, b"", b"", created_at, expires_at)
    try:
        return COMPACT.encode({"session_id": session_id, **fields, **of_store(stored)})
    except ValueError:  # Somebody wrote numbers that JSON has not.
        return None


async def _text_of_state(reader: Reader, session_id: str) -> str | None:
    """Return the same, of the whole state; None where the session has been deleted since."""
    try:
        snapshot, cached = await reader.load(session_id)
        shown = listed_fields.shortened(summary(session_id, snapshot, cached))
        # What a distribution by slots is made of stands beside the state, and is not read for a list.
        effective = None if isinstance(cached.run, SlotRun) else listed_fields.effective_arms_of(cached.run)
        return COMPACT.encode(shown if effective is None else {**shown, "effective_arms": effective})
    except errors.UnknownSessionError:
        return None
    except errors.NewerSchemaError as error:
        return COMPACT.encode({"session_id": session_id, "code": error.code})
    except (errors.StateCorruptError, ValueError):  # Or its numbers are none that JSON has.
        return COMPACT.encode({"session_id": session_id, "damaged": True})


# -- What a session with features shows of these.


async def features_page(reader: Reader, session_id: str) -> Body:
    """Return the JSON of a session's features: of each how many columns it has, and what acts said of late.

    Raises
    ------
    InvalidRequestError
        for a session without features.
    UnknownSessionError, StateCorruptError, StoreUnavailableError
    """
    _, cached = await reader.load(session_id)
    run = of_kind(cached.run, FeatureRun)
    (acts, _, *said), features = run.ledger.said, run.encoder.features
    shares = np.divide(said, max(acts, 1)).reshape(2, -1).T.tolist()
    rows = {
        name: {"columns": feature.columns, "missing": missing, "clipped": clipped}
        for (name, feature), (missing, clipped) in zip(features.items(), shares, strict=True)
    }
    return answer_body(json_chunks({"features": rows}))


async def visitor_page(reader: Reader, session_id: str, said: Mapping[str, Any]) -> Body:
    """Return the JSON of each arm's probability in an act for a visitor; no slot is opened.

    Raises
    ------
    InvalidRequestError
        for a session without features, or naming the feature that is wrong.
    UnknownSessionError, StateCorruptError, StoreUnavailableError
    """
    _, cached = await reader.load(session_id)
    run = of_kind(cached.run, FeatureRun)
    names, shares = run.arms.names, run.for_visitor(run.encoder.encode(said).x).tolist()
    rows = [
        {"arm": arm, **({} if names is None else {"label": names[arm]}), "probability": share}
        for arm, share in zip(run.arms.live, shares, strict=True)
    ]
    return answer_body(json_chunks({"arms": rows}))


# -- What the store counts of the arms of a session.

ARMS_AT_ONCE = 250
"""Arms of which counts are read in one call to the store."""


@dataclass(slots=True)
class ReadCounts:
    """Counts of some arms, as far as they have been read."""

    store: Store
    session_id: str
    losses: LossRange
    """How the session's losses are posted, in which means are shown."""
    uncommitted: Mapping[int, Sequence[float]]
    """What is to be added: vectors by group."""
    outstanding: IntArray
    """Decisions of each arm that there ever was, by index, from which its acts follow."""
    rows: dict[int, ArmCounts] = field(default_factory=dict)
    """By arm, those that were read."""
    versions: set[str] = field(default_factory=set)
    """The versions of the session at which counts were read."""

    async def read(self, arms: Sequence[int]) -> None:
        """Read the counts of arms, by index, that were not read yet.

        Raises
        ------
        UnknownSessionError
            where the session has been deleted.
        """
        fair_yield = FairYield()
        for at in range(0, len(arms), ARMS_AT_ONCE):
            if some := [arm for arm in arms[at : at + ARMS_AT_ONCE] if arm not in self.rows]:
                if (found := await self.store.read_counts(self.session_id, some)) is None:
                    raise errors.UnknownSessionError
                self.versions.add(found.version)
                for arm, stored in zip(some, found.rows, strict=True):
                    added = counts_of(arm, self.uncommitted)
                    self.rows[arm] = ArmCounts(*map(sum, zip(stored, added, strict=True)))
            await fair_yield()

    def acts(self, arm: int) -> float:
        """Return the acts of an arm that was read."""
        row = self.rows[arm]
        return self.outstanding.item(arm) + row.feedbacks + row.expired + row.voided + row.removed

    def mean(self, arm: int) -> float | None:
        """Return the mean loss of an arm over applied events and decisions learned at the default.

        It is on the scale of what clients post, and None without any such event or decision.
        """
        counts = self.rows[arm]
        count = counts.feedbacks + counts.defaulted
        return shown_mean(self.losses.at_share(max(counts.losses, 0.0) / count)) if count > 0 else None


# -- The arms of a session with what is counted of each, a page at a time.

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
    *,
    with_removed: bool = False,
) -> Body:
    """Return the JSON of a page of arms, with what is counted of each; due decisions are settled first.

    Parameters
    ----------
    reader : reads the session
    session_id : of the session, which is over arms
    cursor : ``next_cursor`` of the page before in the same order; None for the first
    limit : arms on the page, at most
    sort : the order; with a hyphen, descending
    segment : shows the probabilities of this segment alone, sorted by index or probability; None for the session
    with_removed : whether removed arms are listed, too; not of a segment

    Raises
    ------
    InvalidRequestError
        for a session over points, a cursor of another list, or an order that segments do not have.
    UnknownSegmentError
        where the session does not keep this segment.
    UnknownSessionError, StateCorruptError, StoreUnavailableError
    """
    check_id(session_id)
    start = _start(cursor, sort)
    if segment is not None:
        return await _of_segment(reader, session_id, start, limit, sort, segment)
    for _ in range(MAX_TRIES):
        journal = Journal()
        snapshot, cached = await reader.settled(session_id, journal, names_removed=with_removed)
        run, spec = _over_arms(cached.run), cached.stored.specification
        added = dict[int, list[float]]()
        add_counts(added, await journal.counts(spec.losses, spec.default_loss, FairYield()))
        # In arrays, which are made at once: there may be a hundred thousand arms.
        listed = np.arange(len(live)) if isinstance(live := run.arms.live, range) else np.array(live)
        outstanding, probabilities = np.zeros(run.arms.size, dtype=np.int64), run.probabilities
        outstanding[listed] = run.outstanding_by_arm
        counts = ReadCounts(reader.store, session_id, spec.losses, added, outstanding)
        if with_removed:
            probabilities = np.zeros(run.arms.size)
            probabilities[listed] = run.probabilities
            listed = np.arange(run.arms.size)
        order = await _ordered(listed, probabilities, counts, sort)
        arms = order[start : start + limit].tolist()
        await counts.read(arms)
        if counts.versions <= {snapshot.version}:
            break
    following = f"{sort}~{start + limit}" if start + limit < len(order) else None
    shown: dict[str, Any] = {"probability": run.probabilities}
    if isinstance(run.learner, MultiscaleTsallis):
        shown["best_chance"] = run.learner.best_chance(run.state)
    rows, fair_yield, gone = [], FairYield(), {each.arm: label for label, each in (run.arms.removed or {}).items()}
    for arm in arms:
        if run.arms.is_live(arm):
            position = run.arms.positions[arm]
            of_arm = {name: None if each is None else float(each[position]) for name, each in shown.items()}
            row = _named(run, arm) | of_arm
        else:
            label = {"label": gone[arm]} if arm in gone else {}
            row = {"arm": arm, **label, "paused": False, "removed": True, "probability": 0.0}
        rows.append(row | _counted(run, counts, arm))
        await fair_yield()
    return answer_body(json_chunks({"arms": rows, "next_cursor": following}))


async def _of_segment(reader: Reader, session_id: str, start: int, limit: int, sort: ArmSort, segment: str) -> Body:
    """Return the same of one segment: its probabilities alone."""
    if sort.removeprefix("-") not in ("index", "probability"):
        raise errors.InvalidRequestError.of("sort", "of a segment arms are sorted by index or probability")
    found = await find(reader, session_id, [segment])
    if segment not in found.segments:
        raise errors.UnknownSegmentError
    run, probabilities = found.run, found.run.probabilities_of(found.segments[segment])
    order = await _ordered(np.array(run.arms.live), probabilities, None, sort)
    following = f"{sort}~{start + limit}" if start + limit < len(order) else None
    arms = order[start : start + limit].tolist()
    shown = dict(zip(run.arms.live, probabilities.tolist(), strict=True))
    rows = [_named(run, arm) | {"probability": shown[arm]} for arm in arms]
    return answer_body(json_chunks({"arms": rows, "next_cursor": following}))


def _over_arms(run: Run) -> ArmRun:
    if not isinstance(run, ArmRun):
        raise errors.InvalidRequestError.of("session_id", "this session is over points, and has no arms")
    return run


def _start(cursor: str | None, sort: ArmSort) -> int:
    """Return the number of arms on the pages before."""
    if cursor is None:
        return 0
    if (found := _CURSOR.fullmatch(cursor)) is None or found[1] not in _SORTS:
        raise errors.InvalidRequestError.of("cursor", "is not one this service gave")
    if found[1] != sort:
        raise errors.InvalidRequestError.of("cursor", f"is one of the list sorted by {found[1]}")
    return int(found[2])


async def _ordered(
    arms: IntArray, probabilities: FloatArray, counts: ReadCounts | None, sort: ArmSort
) -> NDArray[np.int64]:
    """Return the indexes of arms, ascending, in their order; ties by index, arms without a mean last.

    Without ``counts`` the order is by index or probability.
    """
    by, listed = sort.removeprefix("-"), arms.tolist()
    keys: NDArray[Any] = probabilities if by == "probability" else arms
    if counts is not None and by in ("acts", "mean"):
        await counts.read(listed)
        keys = await _keys(counts.acts if by == "acts" else counts.mean, listed)
    signed = -keys if sort.startswith("-") else keys  # A missing mean is NaN, which sorts last either way.
    order: NDArray[np.int64] = arms[await run_in_thread_if_large(keys.nbytes, np.argsort, signed, kind="stable")]
    return order


async def _keys(key: Callable[[int], float | None], arms: Sequence[int]) -> FloatArray:
    """Return what arms are sorted by, made some at a time; not a number where an arm has nothing."""
    keys, fair_yield = [], FairYield()
    for at in range(0, len(arms), KEYS_AT_ONCE):
        some = map(key, arms[at : at + KEYS_AT_ONCE])
        keys.append(np.array([np.nan if each is None else each for each in some], dtype=np.float64))
        await fair_yield()
    return np.concatenate(keys)


def _named(run: ArmRun, arm: int) -> dict[str, Any]:
    names = run.arms.names
    label = {} if names is None else {"label": names[arm]}
    return {"arm": arm, **label, "paused": arm in run.arms.paused}


def _counted(run: ArmRun, counts: ReadCounts, arm: int) -> dict[str, Any]:
    row, outstanding = counts.rows[arm], counts.outstanding.item(arm)
    acts, total = sums_so_far(run.params, row, outstanding)
    mean, low, high = so_far(run.params.losses, acts, total)
    return {
        "acts": int(counts.acts(arm)),
        "outstanding": outstanding,
        "feedbacks": int(row.feedbacks),
        "expired": int(row.expired),
        f"mean_{run.params.losses.word}": counts.mean(arm),
        "low": low,
        "high": high,
        "so_far": {"acts": int(acts), "events": int(row.feedbacks), "mean": mean},
    }


# -- The decision log of a session, a page at a time.

_CURSOR_OF_DECISIONS = re.compile("([0-9]{1,16})-([0-9]{1,18})")
"""Position of the entry before it, and when the session was created, in Unix microseconds."""
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 0.5
"""Seconds after which a reader that waits looks again, doubled each time: another worker may have committed."""
MAX_WAITING, WAITING_SHARE = 256, 0.25
"""Readers that may wait in one worker, and the share of its connections that they may have."""


class DecisionLogs:
    """Reads decision logs, a page at a time, and lets readers wait for the next entry.

    Parameters
    ----------
    store : has the logs
    max_connections : of clients to this worker
    """

    def __init__(self, store: Store, max_connections: int) -> None:
        self._store, self._places = store, min(MAX_WAITING, int(WAITING_SHARE * max_connections))
        self._news: WeakValueDictionary[str, asyncio.Event] = WeakValueDictionary()
        """By session, set when its log has new entries; each lives as long as somebody waits for it."""
        self._is_stopping = False

    def on_logged(self, session_id: str) -> None:
        """Wake those who wait for entries of a session: it has some, or is gone."""
        if (news := self._news.pop(session_id, None)) is not None:
            news.set()

    def stop(self) -> None:
        """Let nobody wait any more, from the next look on."""
        self._is_stopping = True

    async def page(
        self, session_id: str, cursor: str | None, limit: int, seconds: float = 0, left: Left = None
    ) -> Body:
        """Return the JSON of a page, oldest entries first.

        Parameters
        ----------
        session_id : of the session
        cursor : of an earlier page; None to begin with the oldest entry
        limit : entries on the page, at most
        seconds : how long to wait for an entry if there is none
        left : done once the client has left, or sends nothing more; None if nobody knows

        Raises
        ------
        InvalidRequestError
            for a cursor of another list, or of a session that had this id before.
        NoDecisionLogError
            where the session keeps none.
        OverloadedError
            where too many readers wait already.
        UnknownSessionError, NewerSchemaError, StateCorruptError, StoreUnavailableError
        """
        check_id(session_id)
        if (given := _CURSOR_OF_DECISIONS.fullmatch("0-0" if cursor is None else cursor)) is None:
            raise errors.InvalidRequestError.of("cursor", "is not one this service gave")
        after, created = map(int, given.groups())
        until, has_waited = time.monotonic() + seconds, False
        while True:
            if (log := await self._store.read_log(session_id, after, limit + 1)) is None:
                raise errors.UnknownSessionError
            (session, entries), before = log, created
            created = round((session.created_at or 0) * 1e6)
            if has_waited and created != before:  # Deleted while the reader waited, and made anew under this id.
                raise errors.UnknownSessionError
            last = _last_position(log)
            if before not in (0, created) or after > last:
                raise errors.InvalidRequestError.of("cursor", "is of a session that had this id before")
            missed = cursor is not None and (entries[0].position if entries else last + 1) > after + 1
            has_left = left is not None and left.done()
            if entries or missed or has_left or self._is_stopping or time.monotonic() >= until:
                break
            await self._wait(session_id, session.version, until, left)
            has_waited = True
        following = f"{entries[:limit][-1].position if entries else last}-{created}"
        ids = f'"session_id":"{session_id}"}}'
        rows, fair_yield = list[str](), FairYield()
        for each in entries[:limit]:
            rows.append(f'{_checked(each.data)[:-1]},"at":"{time_text(each.at)}","position":{each.position},{ids}')
            await fair_yield()
        more = {"cursor": following} | ({"missed": True} if missed else {})
        return answer_body(_page("decisions", rows, following if len(entries) > limit else None, **more))

    async def _wait(self, session_id: str, version: str, until: float, left: Left) -> None:
        """Wait until a session has another version, or is gone, or ``left``, but no longer than to a moment."""
        if not self._places:
            raise errors.OverloadedError("Too many readers wait for entries of decision logs")
        self._places, pause = self._places - 1, FIRST_PAUSE
        try:
            while not self._is_stopping and (seconds := until - time.monotonic()) > 0:
                news = asyncio.ensure_future(self._news.setdefault(session_id, asyncio.Event()).wait())
                try:
                    some: list[asyncio.Future[Any]] = [news] if left is None else [news, left]
                    if (await asyncio.wait(some, timeout=min(pause, seconds), return_when="FIRST_COMPLETED"))[0]:
                        return
                finally:
                    news.cancel()
                found = await self._store.read_counts(session_id, ())  # Which reads the version alone.
                if found is None or found.version != version:
                    return
                pause = min(2 * pause, LONGEST_PAUSE)
        finally:
            self._places += 1


def _last_position(log: Log) -> int:
    """Return the position of the last entry that was read, or if there is none, of the last that the log has had.

    Raises
    ------
    NoDecisionLogError, NewerSchemaError, StateCorruptError
    """
    about, head = log.session.about, log.session.head
    try:
        keeps_log = json.loads(about or b"{}").get("decision_log") is not None
        last = log.entries[-1].position if log.entries else read_shown(head).ledger.logged
    except (ValueError, AttributeError, CodecError, struct.error) as error:
        raise errors.NewerSchemaError if head[:1] > bytes([NEWEST]) else errors.StateCorruptError from error
    if not keeps_log:
        raise errors.NoDecisionLogError
    return last


# -- The history of a session: samples of its counts and of what its learner would do, oldest first.


async def history_page(reader: Reader, session_id: str) -> Body:
    """Return the JSON of a session's history: samples of its counts and of its learner, oldest first.

    Parameters
    ----------
    reader : reads the session, which says how its losses were posted
    session_id : of the session

    Raises
    ------
    UnknownSessionError, StateCorruptError, StoreUnavailableError
    """
    _, cached = await reader.load(session_id)
    if (stored := await reader.store.read_samples(session_id)) is None:
        raise errors.UnknownSessionError
    left = stored.keys() - dropped(stored, place_of(reader.store.now()))
    samples = (Sample.decode(stored[place]) for place in sorted(left))
    rows = [_row_of_history(cached.run, sample) for sample in samples if sample is not None]
    return answer_body(json_chunks({"period_seconds": PERIOD_SECONDS, "samples": rows}))


def _row_of_history(run: Run, sample: Sample) -> dict[str, Any]:
    losses, over_arms = run.params.losses, isinstance(run, ArmRun)
    mean = losses.posted(sample.mean_loss) if over_arms else sample.mean_loss
    row = {
        "at": time_text(sample.at),
        **{name: getattr(sample, name) for name in COUNTS},
        "counted": sample.losses,
        f"mean_{losses.word}": shown_mean(mean) if sample.losses else None,
    }
    if not over_arms:
        return {**row, "x": sample.x}
    arms = [{"arm": arm, "probability": p} for arm, p in sample.arms]
    weight = {} if sample.feature_weight < 0 else {"feature_weight": round(sample.feature_weight, 6)}
    return {**row, "effective_arms": sample.effective_arms, **weight, "arms": arms}
