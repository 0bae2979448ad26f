"""What a request does to a session's run: open slots, or settle feedback."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from service.committer import Applied
from service.errors import MAX_LISTED, FieldError, InvalidRequestError, SurplusFeedbackError
from service.events import ArmEvent, Event, GradientEvent, LossesEvent
from service.learners.base import FloatArray, Information, PointLearner
from service.learners.run import ArmFeedback, Feedback, PointFeedback, Run
from service.pieces import PIECE, Body, Pause, whole
from service.specification import Idempotency, Surplus

MAX_DELAYS = 100
"""Events of a request whose delay is measured: the first so many."""


@dataclass(slots=True)
class Act:
    """Open ``count`` slots in a row; ``single`` answers with one action instead of a list."""

    count: int
    max_cells: int
    """Largest count * n_arms (or count * dim * dim) in one request."""
    single: bool = False
    idempotency: Idempotency | None = None
    digests: Sequence[bytes] = ()
    is_use: bool = True

    @property
    def weight(self) -> int:
        """Acts in it."""
        return self.count

    async def check(self, run: Run, pause: Pause) -> None:  # noqa: ARG002 - in one go
        """Refuse a request that would answer, or compute, too much."""
        cells = _cells(run)
        if self.count > 1 and self.count * cells > self.max_cells:
            raise InvalidRequestError.of(
                "count", f"count times the learner's size ({cells}) must not exceed {self.max_cells}"
            )

    async def apply(self, run: Run, counted: Callable[[bytes], bool], pause: Pause) -> Applied:  # noqa: ARG002 - acts have no event ids
        """Act."""
        actions = []
        for _ in range(self.count):
            actions.append(_action(run))
            await pause()
        body = iter(actions[0]) if self.single else _actions(actions)
        is_small = run.roster is not None or self.count * _cells(run) <= PIECE
        return Applied("".join(body).encode() if is_small else body)


@dataclass(frozen=True, slots=True)
class Sweep:
    """Nothing of its own: what is due is settled before it. Answers when the session has decisions due next."""

    weight: int = 0
    idempotency: Idempotency | None = None
    digests: Sequence[bytes] = ()
    is_use: bool = False

    async def check(self, run: Run, pause: Pause) -> None:
        """Fit every session."""

    async def apply(self, run: Run, counted: Callable[[bytes], bool], pause: Pause) -> Applied:  # noqa: ARG002 - as any operation
        """Tell the next time as text, nothing where there is none."""
        due_at = None if run.buckets is None else run.buckets.due_at()
        return Applied(b"" if due_at is None else repr(due_at).encode(), changed=False)


@dataclass(frozen=True, slots=True)
class Show:
    """Nothing but the session's view, kept under an idempotency key."""

    view: Callable[[Run, bool], Body]
    """The answer, of a run and whether its commit puts off the idle deadline."""
    idempotency: Idempotency | None
    weight: int = 0
    digests: Sequence[bytes] = ()
    is_use: bool = False

    async def check(self, run: Run, pause: Pause) -> None:
        """Fit every session."""

    async def apply(self, run: Run, counted: Callable[[bytes], bool], pause: Pause) -> Applied:  # noqa: ARG002 - as any operation
        """Show it."""
        return Applied(await whole(self.view(run, self.is_use), pause), changed=False, shows_version=True)


@dataclass(slots=True)
class Feed:
    """Settle a batch of events, all or none of them (surplus may be skipped)."""

    events: Sequence[Event]
    on_surplus: Surplus | None
    """None: skip in sessions whose decisions expire, refuse elsewhere."""
    single: bool = False
    idempotency: Idempotency | None = None
    is_use: bool = True
    _feedback: Sequence[Feedback] = field(default=(), init=False)
    _digests: Sequence[bytes | None] = field(default=(), init=False)
    """Of each event, once the batch was checked."""

    @property
    def weight(self) -> int:
        """Events in it."""
        return len(self.events)

    @property
    def digests(self) -> Sequence[bytes]:
        """Digests of its event ids."""
        return [digest for digest in self._digests if digest is not None]

    async def check(self, run: Run, pause: Pause) -> None:
        """Read every event as the session's learner does, or refuse the request with the indexes."""
        read = _READERS[run.learner.information]
        errors, feedback = [], []
        for index, event in enumerate(self.events):
            try:
                feedback.append(read(event, run))
            except InvalidRequestError as error:
                errors += [replace(each, index=None if self.single else index) for each in error.errors]
                if len(errors) >= MAX_LISTED:
                    break
            await pause()
        if errors:
            indexes = [error.index for error in errors if error.index is not None]
            raise InvalidRequestError(_summary(errors[0]), errors=errors, indexes=indexes)
        self._feedback = feedback
        self._digests = self._digests or await self._digested(pause)

    async def _digested(self, pause: Pause) -> Sequence[bytes | None]:
        digests = []
        for event in self.events:
            digests.append(event.digest)
            await pause()
        return digests

    async def apply(self, run: Run, counted: Callable[[bytes], bool], pause: Pause) -> Applied:
        """Settle what is neither a duplicate, nor of a removed arm, nor surplus."""
        judged = await self._judged(run, counted, pause)
        skips = self._skips(run)
        if judged.surplus and not skips:
            raise SurplusFeedbackError(_surplus_text(run, judged), indexes=judged.surplus)
        delays: list[float] = []
        for index in judged.applied:
            event = self._feedback[index]
            if len(delays) < MAX_DELAYS and (delay := run.delay(event)) is not None:
                delays.append(delay)
            run.settle(event)
            await pause()
        counts = {"applied": len(judged.applied), "duplicates": judged.duplicates}
        if judged.removed:
            counts["removed"] = judged.removed
        if skips:
            counts["surplus"] = len(judged.surplus)
        return _settlement(run, counts, list(judged.recorded))._replace(delays=delays)

    def _skips(self, run: Run) -> bool:
        if self.on_surplus is None:
            return run.params.expiry is not None
        return self.on_surplus == "skip"

    async def _judged(self, run: Run, counted: Callable[[bytes], bool], pause: Pause) -> _Judged:
        """What becomes of each event; an id counts from the first event on that is not surplus."""
        judged, answers = _Judged(), run.outstanding()
        for index, digest in enumerate(self._digests):
            await pause()
            if digest is not None and (digest in judged.recorded or counted(digest)):
                judged.duplicates += 1
                continue
            if run.is_removed(self._feedback[index]):
                judged.removed += 1
            elif answers(self._feedback[index]):
                judged.applied.append(index)
            else:
                judged.surplus.append(index)
                continue
            if digest is not None:
                judged.recorded[digest] = None
        return judged


@dataclass(slots=True)
class _Judged:
    """What becomes of a batch's events: indexes, counts and the ids that count from now on."""

    applied: list[int] = field(default_factory=list)
    surplus: list[int] = field(default_factory=list)
    recorded: dict[bytes, None] = field(default_factory=dict)
    duplicates: int = 0
    removed: int = 0


def _surplus_text(run: Run, judged: _Judged) -> str:
    surplus, count = len(judged.surplus), len(judged.applied) + len(judged.surplus)
    if run.open_slots is not None:
        return f"{surplus} of {count} events name a slot that is not outstanding"
    whose = "" if run.ledger.by_arm is None else " for their arms"
    return f"{count} events for {run.ledger.outstanding} outstanding decisions: {surplus} too many{whose}"


def _settlement(run: Run, counts: dict[str, int], ids: list[bytes]) -> Applied:
    body = counts | {"slot": run.ledger.slot, "outstanding": run.ledger.outstanding}
    changed = counts["applied"] > 0 or bool(ids)
    return Applied(json.dumps(body, separators=(",", ":")).encode(), ids, changed, counts=counts)


def _actions(actions: Sequence[Iterable[str]]) -> Iterator[str]:
    start = '{"actions":['
    for action in actions:
        yield start
        yield from action
        start = ","
    yield "]}"


def _action(run: Run) -> Iterable[str]:
    """The JSON of the next action. A point's is made later, from the state, which is much smaller."""
    if isinstance(run.learner, PointLearner):
        return points_text(run.open_point(), run.learner, run.state)
    action = run.draw_arm()
    names = None if run.roster is None else run.roster.names
    label = "" if names is None else f',"label":{json.dumps(names[action.arm])}'
    return (f'{{"slot":{action.slot},"arm":{action.arm},"probability":{action.probability!r}{label}}}',)


def points_text(slot: int, learner: PointLearner[Any], state: Any) -> Iterator[str]:
    """The JSON of a point and its query points."""
    x = learner.x(state)
    numbers = [repr(number) for number in x.tolist()]
    yield f'{{"slot":{slot},"x":[{",".join(numbers)}]'
    if (changes := _changes(x, learner.query_points(state))) is None:
        yield "}"
        return
    start = ',"query_points":['
    for changed in changes:
        point = list(numbers)
        for place, number in changed:
            point[place] = repr(number)
        yield f"{start}[{','.join(point)}]"
        start = ","
    yield "]}"


def _changes(x: FloatArray, points: FloatArray | None) -> Sequence[Sequence[tuple[int, float]]] | None:
    """Where each query point differs from ``x``, which is in few coordinates, and what stands there."""
    if points is None:
        return None
    changes: list[list[tuple[int, float]]] = [[] for _ in points]
    rows, places = np.nonzero(points.view(np.int64) != x.view(np.int64))
    for row, place, number in zip(*(each.tolist() for each in (rows, places, points[rows, places])), strict=True):
        changes[row].append((place, number))
    return changes


def _arm_feedback(event: Event, run: Run) -> ArmFeedback:
    if not isinstance(event, ArmEvent):
        raise InvalidRequestError.of("loss", "this session's learner takes one loss of one arm")
    arm = _arm(event, run)
    try:
        loss = run.params.losses.learned(event.loss)
    except ValueError as error:
        raise InvalidRequestError.of("loss", str(error)) from error
    return ArmFeedback(arm, loss, event.slot)


def _slot_feedback(event: Event, run: Run) -> Feedback:
    feedback = _arm_feedback(event, run)
    if isinstance(event, ArmEvent) and event.slot is None:
        raise InvalidRequestError.of("slot", "this learner needs the slot that was acted; dexp3 learns without it")
    try:
        run.check_slot(feedback)
    except ValueError as error:
        raise InvalidRequestError.of("slot", str(error)) from error
    return feedback


def _arm(event: ArmEvent, run: Run) -> int:
    assert run.roster is not None  # noqa: S101 - the information model tells
    labels, n_arms = run.roster.labels, run.roster.size
    if event.label is not None:
        if event.arm is not None:
            raise InvalidRequestError.of("label", "give either arm or label")
        if labels is None:
            raise InvalidRequestError.of("label", "this session's arms have no labels")
        if (arm := labels.get(event.label)) is None:
            raise InvalidRequestError.of("label", "the session has no arm with this label")
        return arm
    if event.arm is None or event.arm >= n_arms:
        raise InvalidRequestError.of("arm", f"must be an arm's number, 0 to {n_arms - 1}")
    return event.arm


def _losses_feedback(event: Event, run: Run) -> Feedback:
    dim = _dim(run)
    if not isinstance(event, LossesEvent):
        raise InvalidRequestError.of("losses", f"this session's learner takes {dim + 1} losses of one slot")
    return _values("losses", event.losses, dim + 1)


def _gradient_feedback(event: Event, run: Run) -> Feedback:
    dim = _dim(run)
    if not isinstance(event, GradientEvent):
        raise InvalidRequestError.of("gradient", f"this session's learner takes a gradient of length {dim}")
    return _values("gradient", event.gradient, dim)


def _values(name: str, values: Sequence[float], length: int) -> Feedback:
    if len(values) != length:
        raise InvalidRequestError.of(name, f"must have {length} numbers, has {len(values)}")
    return PointFeedback(np.asarray(values, dtype=np.float64))


def _cells(run: Run) -> int:
    """Numbers that an act of the session takes."""
    return _dim(run) ** 2 if run.roster is None else len(run.roster.live)


def _dim(run: Run) -> int:
    learner = run.learner
    assert isinstance(learner, PointLearner)  # noqa: S101 - the information model tells
    return learner.dim


_READERS: dict[Information, Callable[[Event, Run], Feedback]] = {
    Information.ARM: _arm_feedback,
    Information.SLOT: _slot_feedback,
    Information.LOSSES: _losses_feedback,
    Information.GRADIENT: _gradient_feedback,
}


def _summary(error: FieldError) -> str:
    where = error.field if error.index is None else f"events[{error.index}].{error.field}"
    return f"{where}: {error.message}"
