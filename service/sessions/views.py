"""The view of a session: what clients see of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..commit.batch import VERSION, Applied, Draft, Journal, Operation, expire_due
from ..commit.cache import CachedSession, SessionCache
from ..commit.loading import decoded, with_records
from ..cooperative import COMPACT, LABEL_BYTES, Body, answer_body, floats_text, joined, json_chunks
from ..engine.arm_run import ArmRun
from ..engine.run import Run, SlotRun
from ..errors import InvalidRequestError, UnknownSessionError
from ..learners.base import Spec
from ..learners.specs import ArmsSpec, PointsSpec, named
from ..models.specification import Specification, is_id
from ..serialization import summary as listed
from ..serialization.summary import effective_arms, time_text
from ..settings import Settings
from ..store.base import Snapshot, Store

# -- How large a session may be: by the settings, and by what an API key allows.

LIVES = 10
"""A session may have had this many times the arms it may have at once: the counts of each arm are kept for ever."""
MAX_OPEN_SLOTS = 1_000_000
"""Largest ``max_open_slots`` of a session."""


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
        if learner.arm_count > learner.most_arms:
            text = f"with so many there may be at most {learner.most_arms} arms"
            raise InvalidRequestError.of("learner.max_open_slots", text)
        if (getattr(learner, "max_open_slots", None) or 0) > MAX_OPEN_SLOTS:
            raise InvalidRequestError.of("learner.max_open_slots", f"must not exceed {MAX_OPEN_SLOTS}")

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
    def of(cls, cached: CachedSession) -> ShortView | None:
        """Make the texts; None for a view that may be long, or is of points."""
        run = cached.run
        if not isinstance(run, ArmRun) or run.arms.names is not None or len(run.arms.live) > SHORT_ARMS:
            return None
        p = run.probabilities
        numbers = f'"paused":[],"probabilities":[{floats_text(p, COMPACT)}],"effective_arms":{effective_arms(p)!r}'
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


def session_view(session_id: str, snapshot: Snapshot, cached: CachedSession, unknown: Sequence[str] = ()) -> Body:
    """Return the JSON of a session's view.

    Parameters
    ----------
    session_id : shown in the view; neither of the others knows it
    snapshot : gives version and times
    cached : gives the rest; its run may be ahead of the snapshot
    unknown : labels that the request named and no arm has
    """
    if (short := ShortView.of(cached)) is not None:
        return short.view(session_id, snapshot)
    fields = fields_of(session_id, snapshot, cached) | ({"unknown": unknown} if unknown else {})
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
    return listed.viewed(cached.stored.specification.chosen(), cached.run, mostly_surplus=cached.mostly_surplus)


def of_store(snapshot: Snapshot) -> dict[str, Any]:
    """Return the fields of a view that the store knows."""
    expires_at = None if snapshot.expires_at is None else time_text(snapshot.expires_at)
    return {"version": snapshot.version, "created_at": time_text(snapshot.created_at), "expires_at": expires_at}


def viewer(session_id: str, snapshot: Snapshot, cached: CachedSession) -> Callable[..., Body]:
    """Make a function for the view that a commit answers with: of its run, whether it is a use, and unknown labels.

    A use extends the idle deadline. The version is not known before the commit: ``VERSION`` stands for it.

    Parameters
    ----------
    session_id : shown in the view
    snapshot : gives the time of creation, and the idle deadline where the commit is no use
    cached : gives the specification; its run is replaced by the commit's
    """

    def view(run: Run, extends_deadline: bool, unknown: Sequence[str] = ()) -> Body:
        extended = cached.stored.specification.expires_at(run.ledger.time)
        then = snapshot._replace(version=VERSION, expires_at=extended if extends_deadline else snapshot.expires_at)
        return session_view(session_id, then, cached._replace(run=run), unknown)

    return view


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

    async def view(self, session_id: str) -> Body:
        """Return the JSON of a session as it is now, with its due decisions settled; nothing is committed."""
        return session_view(session_id, *(await self.settled(session_id, Journal())))

    async def settled(self, session_id: str, journal: Journal) -> tuple[Snapshot, CachedSession]:
        """Read a session as it is now, with its due decisions settled, without committing that.

        Parameters
        ----------
        session_id : of the session to read
        journal : notes what is settled

        Returns
        -------
        The session as the store keeps it, and the same decoded and settled.

        Raises
        ------
        UnknownSessionError, StateCorruptError, StoreUnavailableError
        """
        snapshot, cached = await self.load(session_id, expires=True)
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

    async def load(self, session_id: str, *, expires: bool = False) -> tuple[Snapshot, CachedSession]:
        """Read a session as it was last committed.

        Parameters
        ----------
        session_id : of the session
        expires : whether it is read with the records of its window; otherwise without records that its learner's
            state does not need

        Returns
        -------
        The session as the store keeps it, and the same decoded, all of one version.

        Raises
        ------
        UnknownSessionError, StateCorruptError, StoreUnavailableError
        """
        check_id(session_id)
        while (snapshot := await self.store.load(session_id)) is not None:
            cached = await self.cached(session_id, snapshot)
            is_needed = cached.is_unread or (expires and cached.run.params.expiry is not None)
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

    view: Callable[[Run, bool], Body]
    """Makes the view, of a run and whether its commit extends the idle deadline."""

    @property
    def weight(self) -> int:
        return 0

    async def apply(self, draft: Draft, _checked: None) -> Applied:
        body = await joined(self.view(draft.run, self.extends_deadline), draft.fair_yield)
        return Applied(body, changed=False, shows_version=True)
