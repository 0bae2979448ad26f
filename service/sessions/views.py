"""The view of a session: what clients see of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..commit.batch import VERSION, Applied, Draft, Journal, Operation, expire_due
from ..commit.cache import CachedSession, SessionCache, decoded, with_records
from ..cooperative import COMPACT, LABEL_BYTES, Body, FairYield, answer_body, floats_text, joined, json_chunks
from ..engine.arm_run import ArmRun
from ..engine.control import mean_interval
from ..engine.ledger import LossRange, Params
from ..engine.run import Run, SlotRun
from ..errors import InvalidRequestError, StoreUnavailableError, UnknownSessionError
from ..learners.base import FloatArray, Spec
from ..learners.features import columns_of
from ..learners.specs import ArmsSpec, PointsSpec, named
from ..models.specification import Specification, is_id
from ..models.stored import Stored
from ..serialization import summary as listed
from ..serialization.state import is_unread
from ..serialization.summary import effective_arms, shown_mean, time_text
from ..settings import Settings
from ..store.base import ArmCounts, Snapshot, Store, add_counts, counts_of

# -- How large a session may be: by the settings, and by what an API key allows.

LIVES = 10
"""A session may have had this many times the arms it may have at once: the counts of each arm are kept for ever."""
MAX_OPEN_SLOTS = 50_000
"""Largest ``max_open_slots`` of a session: copying so many takes 5 ms."""


class Rights(NamedTuple):
    """What the holder of an API key may create; None for no limit but the settings'."""

    prefix: str = ""
    """The ids of its sessions begin with this."""
    max_sessions: int | None = None
    max_arms: int | None = None


ALL = Rights()


class ArmLimits(NamedTuple):
    """How many arms a session may have, and how long their labels may be."""

    at_once: int
    ever: int
    """Removed ones included."""
    label_bytes: int
    dedupe_seconds: float
    """For which a removed arm is known by its label at least."""


class Limits:
    """The limits of this service."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def check(self, spec: Specification, rights: Rights) -> None:
        """Refuse a new session that would be too large.

        Parameters
        ----------
        spec : of the session to create
        rights : what the caller's API key allows, beside the settings

        Raises
        ------
        InvalidRequestError
            naming the field and its limit.
        """
        learner = spec.learner
        if isinstance(learner, PointsSpec) and learner.dim > self._settings.max_dim:
            raise InvalidRequestError.of("learner.dim", f"must not exceed {self._settings.max_dim}")
        if not isinstance(learner, ArmsSpec):
            return
        most = self.max_arms(type(learner), rights)
        if learner.arm_count > most:
            raise InvalidRequestError.of("learner.n_arms", f"must not exceed {most}")
        if (ever := self._settings.max_arms_ever) is not None and learner.arm_count > ever:
            raise InvalidRequestError.of("learner.n_arms", f"must not exceed BANDIT_MAX_ARMS_EVER, which is {ever}")
        check_labels("learner.arms", learner.arms or (), self._settings.max_label_bytes)
        self.check_features("features", spec, learner.arm_count)
        if learner.arm_count > learner.most_arms:
            text = f"with so many there may be at most {learner.most_arms} arms"
            raise InvalidRequestError.of("learner.max_open_slots", text)
        if (getattr(learner, "max_open_slots", None) or 0) > MAX_OPEN_SLOTS:
            raise InvalidRequestError.of("learner.max_open_slots", f"must not exceed {MAX_OPEN_SLOTS}")

    def check_features(self, field: str, spec: Specification, n_arms: int) -> None:
        """Refuse so many arms if the regressions of a session with features would be too large."""
        if spec.features is None:
            return
        d = columns_of(spec.features)
        if n_arms > (most := self._settings.max_feature_cells // (d * (d + 3))):
            text = f"with {d} columns of features a session may have {most} arms (BANDIT_MAX_FEATURE_CELLS), not"
            raise InvalidRequestError.of(field, f"{text} {n_arms}")

    def arms_of(self, learner: Spec, rights: Rights) -> ArmLimits:
        """Return how many arms a session of this learner may have, none for a learner over points.

        Parameters
        ----------
        learner : the session's, as it was posted
        rights : what the caller's API key allows, beside the settings
        """
        settings, most = self._settings, 0
        if isinstance(learner, ArmsSpec):
            most = min(self.max_arms(type(learner), rights), learner.most_arms)
        ever = LIVES * most if settings.max_arms_ever is None else settings.max_arms_ever
        return ArmLimits(most, ever, settings.max_label_bytes, settings.dedupe_window_seconds)

    def max_arms(self, spec: type[ArmsSpec], rights: Rights) -> int:
        """Return how many arms a session of any learner with this class of specification may have at once.

        Parameters
        ----------
        spec : names the setting that limits its arms
        rights : what the caller's API key allows, beside the settings
        """
        most: int = getattr(self._settings, spec.arms_setting)
        return most if rights.max_arms is None else min(most, rights.max_arms)


def check_labels(field: str, labels: Iterable[str], max_bytes: int) -> None:
    """Refuse labels that are too long.

    Parameters
    ----------
    field : of the request, named in the error with the label's index
    labels : of arms, in the order of the request
    max_bytes : of one label, in UTF-8

    Raises
    ------
    InvalidRequestError
        naming the first label that is too long.
    """
    for index, label in enumerate(labels):
        if (size := len(label.encode())) > max_bytes:
            message = f"a label has at most {max_bytes} bytes, and not {size}: {named(label)}"
            raise InvalidRequestError.of(f"{field}.{index}", message)


def label_bytes(spec: Specification) -> int:
    """Return how many bytes the labels of a new session count for where large work is done in a thread."""
    return LABEL_BYTES * len(getattr(spec.learner, "arms", None) or ())


SHORT_ARMS = 500
"""Most arms, without labels, of a view made at once: it takes a quarter of a millisecond, and is sent whole."""


class ShortView(NamedTuple):
    """The JSON of a short view as texts, without what the store alone knows of the session."""

    fields: str
    """From the learner to the hints."""
    numbers: str
    """What comes last: the probabilities, for the most part."""

    @classmethod
    def of(cls, cached: CachedSession, leader: Leader | None = None) -> ShortView | None:
        """Make the texts, with the leader if it is known; None for a view that may be long, or is of points."""
        run = cached.run
        if not isinstance(run, ArmRun) or run.arms.names is not None or len(run.arms.live) > SHORT_ARMS:
            return None
        p = run.probabilities
        numbers = f'"paused":[],"probabilities":[{floats_text(p, COMPACT)}],"effective_arms":{effective_arms(p)!r}'
        if (leader := leader or _first_leader(run)) is not None:
            numbers += f',"leader":{COMPACT.encode(leader)}'
        return cls(COMPACT.encode(_of_run(cached))[1:-1], numbers)

    def view(self, session_id: str, snapshot: Snapshot) -> bytes:
        """Return the whole view.

        Parameters
        ----------
        session_id : shown in the view
        snapshot : gives version and times
        """
        first, last = (COMPACT.encode(each)[1:-1] for each in ({"session_id": session_id}, of_store(snapshot)))
        return f"{{{first},{self.fields},{last},{self.numbers}}}".encode()


def session_view(
    session_id: str,
    snapshot: Snapshot,
    cached: CachedSession,
    unknown: Sequence[str] = (),
    leader: Leader | None = None,
) -> Body:
    """Return the JSON of a session's view.

    Parameters
    ----------
    session_id : shown in the view; neither of the others knows it
    snapshot : gives version and times
    cached : gives the rest; its run may be ahead of the snapshot
    unknown : labels that the request named and no arm has
    leader : the arm that leads; None where the store was not asked, and only that of a new session is known
    """
    if (short := ShortView.of(cached, leader)) is not None:
        return short.view(session_id, snapshot)
    fields = fields_of(session_id, snapshot, cached) | ({"unknown": unknown} if unknown else {})
    if (leader := leader or _first_leader(cached.run)) is not None:
        fields["leader"] = leader
    return answer_body(json_chunks(fields))


def fields_of(session_id: str, snapshot: Snapshot, cached: CachedSession) -> dict[str, Any]:
    """Return the fields of a session's view.

    Parameters
    ----------
    session_id : shown in the view; neither of the others knows it
    snapshot : gives version and times
    cached : gives the rest; its run may be ahead of the snapshot
    """
    run = cached.run
    view = summary(session_id, snapshot, cached)
    if isinstance(run, ArmRun):
        view["paused"] = list(map((run.arms.names or ()).__getitem__, sorted(run.arms.paused)))
        view["probabilities"] = p = run.probabilities
        view["effective_arms"] = effective_arms(p)
    else:
        view["x"] = run.learner.x(run.state)
    return view


def summary(session_id: str, snapshot: Snapshot, cached: CachedSession) -> dict[str, Any]:
    """Return the fields of a session's view except ``probabilities`` or ``x``, which may be long.

    Parameters
    ----------
    session_id : shown in the view; neither of the others knows it
    snapshot : gives version and times
    cached : gives the rest; its run may be ahead of the snapshot
    """
    return {"session_id": session_id, **_of_run(cached), **of_store(snapshot)}


def _of_run(cached: CachedSession) -> dict[str, Any]:
    chosen, run = cached.stored.specification.chosen(), cached.run
    return listed.viewed(chosen, run, mostly_surplus=cached.mostly_surplus) | listed.groups_of(run)


def of_store(snapshot: Snapshot) -> dict[str, Any]:
    """Return the fields of a view that the store knows."""
    expires_at = None if snapshot.expires_at is None else time_text(snapshot.expires_at)
    return {"version": snapshot.version, "created_at": time_text(snapshot.created_at), "expires_at": expires_at}


View = Callable[..., Awaitable[Body]]
"""Makes a view, of a specification, a run, what its batch has done, whether that extends the idle deadline, and
unknown labels."""


def viewer(reader: Reader, session_id: str, snapshot: Snapshot, cached: CachedSession) -> View:
    """Make a function for the view that a commit answers with.

    The version is not known before the commit: ``VERSION`` stands for it.

    Parameters
    ----------
    reader : finds the leader
    session_id : shown in the view
    snapshot : gives the time of creation, and the idle deadline where the commit is no use
    cached : its specification and run are replaced by the commit's, which others may have changed meanwhile
    """

    async def view(
        stored: Stored, run: Run, journal: Journal, extends_deadline: bool, unknown: Sequence[str] = ()
    ) -> Body:
        leader, then = None, cached._replace(stored=stored, run=run)
        with suppress(StoreUnavailableError, UnknownSessionError):  # Which the commit will find out.
            leader = await reader.leader(session_id, then, run, journal, {})
        extended = stored.specification.expires_at(run.ledger.time)
        at = snapshot._replace(version=VERSION, expires_at=extended if extends_deadline else snapshot.expires_at)
        return session_view(session_id, at, then, unknown, leader)

    return view


# -- What an arm's rewards are so far, and which arm leads.


def sums_so_far(params: Params, counts: ArmCounts, outstanding: int) -> tuple[float, float]:
    """Return how many of an arm's acts count, and the sum of their losses on the scale where 1 is the worst.

    An act counts as the default until an event replaces it; without a default settled decisions count alone.

    Parameters
    ----------
    params : of the session
    counts, outstanding : of the arm
    """
    losses, expiry, learned = params.losses, params.expiry, counts.feedbacks + counts.defaulted
    if expiry is None or expiry.loss is None:
        return learned, counts.losses
    acts = outstanding + counts.feedbacks + counts.expired + counts.removed
    return acts, counts.losses + (acts - learned) * losses.share(losses.posted(expiry.loss))


def so_far(losses: LossRange, acts: float, total: float) -> tuple[float | None, float, float]:
    """Return the mean of an arm, None without acts, and the ends of its interval, as clients see them.

    Parameters
    ----------
    losses : of the session
    acts, total : as ``sums_so_far`` returns them
    """
    low, high = sorted(losses.at_share(1 - end) for end in mean_interval(acts - total, acts))
    mean = shown_mean(losses.at_share(max(total, 0.0) / acts)) if acts > 0 else None
    return mean, shown_mean(low), shown_mean(high)


Leader = Mapping[str, Any]
"""The most probable arm as a view shows it."""
ARMS_AT_ONCE = 250
"""Arms whose counts are read at once to find one that may be better than the leader."""
MAX_LEADERS = 1_000
"""Sessions whose leader, and view if it is short, are remembered."""
Moment = tuple[str, int, bool]
"""What a view depends on: the version, how many decisions have expired, and whether most events were surplus."""


def _leader(run: ArmRun, p: FloatArray, position: int, sums: tuple[float, float]) -> dict[str, Any]:
    """Return what is known of an arm, by position, but whether its lead is clear."""
    arm, names = run.arms.live[position], run.arms.names
    label = {} if names is None else {"label": names[arm]}
    mean, low, high = so_far(run.params.losses, *sums)
    return {"arm": arm, **label, "probability": p.item(position), "mean": mean, "low": low, "high": high}


def _first_leader(run: Run) -> Leader | None:
    """Return the leader of a session without acts, of whose arms nothing is counted yet; None with some."""
    if not isinstance(run, ArmRun) or run.slot:
        return None
    position = int((p := run.probabilities).argmax())
    return _leader(run, p, position, (0, 0)) | {"clear": len(run.arms.live) == 1}


# -- Reading sessions without changing them.


def check_id(session_id: str) -> None:
    """Refuse what no session can have as its id.

    Raises
    ------
    UnknownSessionError
    """
    if not is_id(session_id):
        raise UnknownSessionError


class Reader:
    """Reads sessions from the store, and decodes those that the cache does not hold at the stored version.

    Parameters
    ----------
    store : has the sessions
    cache : of this worker; nothing is added to it

    Attributes
    ----------
    store : has the sessions
    """

    def __init__(self, store: Store, cache: SessionCache) -> None:
        self.store, self._cache = store, cache
        self._leaders: dict[str, tuple[Moment, Leader | None, Sequence[int], ShortView | None]] = {}
        """By session, with the arms that were looked at for it, and the view if it is short."""

    async def view(self, session_id: str) -> Body:
        """Return the JSON of a session as it is now, with its due decisions settled; nothing is committed."""
        known, leader, arms, short = self._leaders.get(session_id, (None, None, (), None))
        snapshot, cached = await self.settled(session_id, journal := Journal(), arms)
        moment = (snapshot.version, cached.run.counts.expired, cached.mostly_surplus)
        if known != moment:
            # Most often the same arms decide again, whose counts came with the session.
            rows = dict(zip(arms, snapshot.counts, strict=True))
            leader = await self.leader(session_id, cached, cached.run, journal, rows)
            if len(self._leaders) >= MAX_LEADERS:
                self._leaders.clear()
            short = ShortView.of(cached, leader)
            self._leaders[session_id] = (moment, leader, [*rows][-ARMS_AT_ONCE:], short)
        if short is not None:
            return short.view(session_id, snapshot)
        return session_view(session_id, snapshot, cached, leader=leader)

    async def leader(
        self, session_id: str, cached: CachedSession, run: Run, journal: Journal, rows: dict[int, ArmCounts]
    ) -> Leader | None:
        """Return the most probable arm, and whether its interval lies beyond that of each other live arm.

        Counts are looked at until one is found that does not; of a commit meanwhile some may be counted. Without
        acts, and over points, it is None.

        Parameters
        ----------
        session_id, cached : of the session
        run : of which the leader is
        journal : what led to it from what is stored
        rows : counts of arms, as they are known; afterwards of those that were looked at
        """
        if not isinstance(run, ArmRun) or not run.slot:
            return None
        added, live, p, known = dict[int, list[float]](), run.arms.live, run.probabilities, rows.copy()
        open_ones = run.outstanding_by_arm
        if journal:
            default = cached.stored.specification.default_loss
            add_counts(added, await journal.counts(run.params.losses, default, FairYield()))
        rows.clear()
        leader, least, order, fair_yield = dict[str, Any](), 0.0, np.empty(0, dtype=np.int64), FairYield()
        # First the arm that leads, then those that are known, then all from the most probable one on.
        for start in (-1, *range(0, len(live), ARMS_AT_ONCE)):
            order = order if start else np.argsort(-p, kind="stable")
            some = [live[at] for at in order[start : start + ARMS_AT_ONCE].tolist()]
            some = [live[int(p.argmax())], *known] if start < 0 else some
            some = [arm for arm in some if arm not in rows and run.arms.is_live(arm)]
            if missing := [arm for arm in some if arm not in known]:
                if (found := await self.store.read_counts(session_id, missing)) is None:
                    raise UnknownSessionError
                known |= zip(missing, found.rows, strict=True)
            for arm in some:
                at, rows[arm] = run.arms.positions[arm], (row := known[arm])
                if added:
                    row = ArmCounts(*map(sum, zip(row, counts_of(arm, added), strict=True)))
                acts, total = sums_so_far(run.params, row, open_ones.item(at))
                low, high = mean_interval(acts - total, acts)
                if not leader:
                    leader, least = _leader(run, p, at, (acts, total)), low
                elif arm != leader["arm"] and high >= least:
                    return leader | {"clear": False}
                await fair_yield()
        return leader | {"clear": True}

    async def compare(self, learner: str, control: str) -> bytes:
        """Return the JSON of two sessions' counts and verdict, as if they were two groups of one.

        Parameters
        ----------
        learner, control : ids of the session in question, and of the one that it is compared with

        Raises
        ------
        InvalidRequestError
            for a session over points, and for two whose losses or rewards are not alike.
        UnknownSessionError, StateCorruptError, StoreUnavailableError
        """
        groups, ranges = list[listed.Group](), list[LossRange]()
        for field, session_id in (("learner", learner), ("control", control)):
            run = (await self.settled(session_id, Journal()))[1].run
            if not isinstance(run, ArmRun):
                raise InvalidRequestError.of(
                    field, "this session is over points: only sessions over arms are compared"
                )
            groups.append((run.counts, run.params.expiry))
            ranges.append(run.params.losses)
        if ranges[0] != ranges[1]:
            raise InvalidRequestError.of(
                "control", "must have the range of the learner's session, and the same word"
            )
        return COMPACT.encode(listed.compared(ranges[0], groups[0], groups[1])).encode()

    async def settled(
        self, session_id: str, journal: Journal, arms: Sequence[int] = (), *, names_removed: bool = False
    ) -> tuple[Snapshot, CachedSession]:
        """Read a session as it is now, with its due decisions settled, without committing that.

        Parameters
        ----------
        session_id : of the session to read
        journal : notes what is settled
        arms : by index, whose counts the store is asked for too
        names_removed : whether the labels of removed arms are read, too

        Returns
        -------
        The session as the store keeps it, and the same decoded and settled.

        Raises
        ------
        UnknownSessionError, StateCorruptError, StoreUnavailableError
        """
        snapshot, cached = await self.load(session_id, arms, expires=True, names_removed=names_removed)
        return snapshot, await self.as_of_now(cached, journal)

    async def as_of_now(self, cached: CachedSession, journal: Journal) -> CachedSession:
        """Settle the due decisions of a copy of a session; without expiry it is returned as it is.

        Parameters
        ----------
        cached : the session as it was committed, with its records
        journal : notes what is settled
        """
        if cached.run.params.expiry is None:
            return cached
        run = cached.run.copy()
        run.advance(self.store.now())
        if run.due and isinstance(run, SlotRun):
            # Settling pauses, and a commit may be written meanwhile.
            run.open_slots = run.open_slots.separate()
        await expire_due(run, journal)
        return cached._replace(run=run)

    async def load(
        self, session_id: str, arms: Sequence[int] = (), *, expires: bool = False, names_removed: bool = False
    ) -> tuple[Snapshot, CachedSession]:
        """Read a session as it was last committed.

        Parameters
        ----------
        session_id : of the session
        arms : by index, whose counts the store is asked for too
        expires : whether it is read with the records of its window; otherwise without records that its learner's
            state does not need
        names_removed : whether it is read with the labels of removed arms, which are records, too

        Returns
        -------
        The session as the store keeps it, and the same decoded, all of one version.

        Raises
        ------
        UnknownSessionError, StateCorruptError, StoreUnavailableError
        """
        check_id(session_id)
        while (snapshot := await self.store.load(session_id, arms)) is not None:
            cached = await self.cached(session_id, snapshot)
            run = cached.run
            is_needed = names_removed or is_unread(run.state) or run.control is not None
            is_needed |= expires and run.params.expiry is not None
            if not cached.needs_records or not is_needed:
                return snapshot, cached
            records = await self.store.read_records(session_id)
            if (again := await self.store.load(session_id)) is not None and again.version == snapshot.version:
                return snapshot, await with_records(cached, records)
        raise UnknownSessionError

    async def cached(self, session_id: str, snapshot: Snapshot) -> CachedSession:
        """Decode a snapshot, unless the cache holds it.

        Parameters
        ----------
        session_id : of the session, by which the cache knows it
        snapshot : the session as the store keeps it

        Raises
        ------
        StateCorruptError
            where the stored bytes can't be read.
        """
        cached = self._cache.get(session_id)
        if cached is None or cached.version != snapshot.version or not snapshot.state.endswith(cached.checksum):
            cached = await decoded(snapshot, cached)
        return cached._replace(mostly_surplus=session_id in self._cache.watch.mostly_surplus)


# -- Showing a session as part of a commit.


@dataclass(slots=True)
class Show(Operation):
    """Change nothing; answer with the session's view, which the idempotency key then stores."""

    extends_deadline = False

    view: View

    @property
    def weight(self) -> int:
        return 0

    async def apply(self, draft: Draft, _checked: None) -> Applied:
        view = await self.view(draft.stored, draft.run, draft.journal, self.extends_deadline)
        body = await joined(view, draft.fair_yield)
        return Applied(body, changed=False, shows_version=True)
