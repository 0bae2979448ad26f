"""Runs of each kind (over points, with provisional defaults, with named slots), how they start and expire.

The service applies requests to a ``Run``; an in-process replay steps the same class, so both give the same
numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import repeat
from typing import Any, Self, cast

import numpy as np

from ..learners import base
from ..learners.feature_tsallis import FeatureTsallis, Told, known
from ..learners.features import Encoded, Encoder
from ..learners.maths import LARGEST_VALUE, over
from ..learners.segments import Segments, start_shared
from .arm_run import ArmRun, Arms, BaseRun, SurplusChecker
from .control import GROUPS, Control, Group, probabilities_of
from .ledger import (
    ActTimes,
    ArmAction,
    ArmFeedback,
    ArmLedger,
    Draws,
    Expiry,
    Ledger,
    Params,
    PointAction,
    PointFeedback,
)
from .open_slots import OpenSlots
from .segment_run import KeptSegments, SegmentRun


@dataclass(slots=True)
class PointRun(BaseRun):
    """A session over the points of a convex set, in which feedback names neither point nor slot."""

    learner: base.PointLearner[Any]

    def act(self) -> PointAction:
        """Open the next slot and return the point to play."""
        t = self.open_slot()
        return PointAction(t, self.learner.x(self.state), self.learner.query_points(self.state))

    def open_slot(self) -> int:
        """Open the next slot and return its number; what to play is a function of the state then."""
        slot = self._open_slot(None)
        self.state = self.learner.open(self.state, slot)
        if self.act_times is not None:
            self.act_times.act(self.ledger.time, (0,), 1)
        return slot.t

    def settle(self, event: PointFeedback) -> None:
        self.ledger.settle()
        if self.learner.information is base.Information.LOSSES:
            self.ledger.learn(float(np.clip(event.values[0], -LARGEST_VALUE, LARGEST_VALUE)))
        self.state = self.learner.settle(self.state, event.values, self.ledger.outstanding)

    def void(self, event: PointFeedback) -> None:  # noqa: ARG002 - no learner over points keeps decisions
        self.ledger.void()

    def surplus_checker(self) -> SurplusChecker:
        left = repeat(True, self.ledger.outstanding)
        return lambda event: next(left, False)  # noqa: ARG005 - any event may be of any decision

    def _acted_at(self, times: ActTimes, event: PointFeedback) -> float | None:  # noqa: ARG002 - the oldest is settled
        return times.acted_at(0, self.ledger.outstanding)


@dataclass(slots=True)
class ProvisionalRun(ArmRun):
    """A session over arms in which the default loss is learned at the act, and corrected when an event comes.

    So nothing is left to learn when a decision's window ends.

    A decision is outstanding until an event corrects it, it is taken back, or its window ends, as in any session.
    """

    learner: base.ProvisionalLearner[Any]

    @property
    def default(self) -> float:
        """The loss that every act is charged with, on the learner's scale."""
        return self.params.charged or 0.0

    def act(self, eligible: base.IntArray | None = None) -> ArmAction:
        """Open the next slot, draw its arm and, if there is no silence, charge it with the default loss."""
        action = ArmRun.act(self, eligible)
        if not self.ledger.silent:
            self.state = self.learner.charge(self.state, self.arms.positions[action.arm], self.default)
        return action

    def settle_all(self, arms: Sequence[int], losses: Sequence[float], slot: int | None = None) -> None:
        positions, times = [self.arms.positions[arm] for arm in arms], self.act_times
        if times is None or not times.silent:
            self.ledger.settle_all(positions, losses, self.params.expiry)
            self.state = self.learner.correct_all(self.state, positions, losses, self.default)
            return
        are_uncharged = [self.take(position, slot=slot) for position in positions]
        self.ledger.settle_all(positions, losses, self.params.expiry)
        for position, loss, is_uncharged in zip(positions, losses, are_uncharged, strict=True):
            if is_uncharged:
                self.state = self.learner.settle(self.state, position, loss)
            else:
                self.state = self.learner.correct(self.state, position, loss, self.default)

    def void(self, event: ArmFeedback) -> None:
        position = self.arms.positions[event.arm]
        is_uncharged = self.take(position, slot=event.signed_slot)
        self.ledger.void_of(position)
        if is_uncharged:
            self.state = self.learner.void(self.state, position)
        else:
            self.state = self.learner.uncharge(self.state, position, self.default)


MERGED_CELLS, MERGED_ARMS = 40_000, 250
"""Numbers of the sums of arms that are merged and solved for at once, which takes 5 ms at most; and arms."""
SAID_TOGETHER = 1_000
"""Acts after which those counted so far count for half in what is known of features."""


@dataclass(slots=True)
class FeatureRun(ProvisionalRun):
    """A session whose acts have the columns of a visitor, and whose events may bring them, or what a token has.

    It need not have a default: then an act is charged with nothing.
    """

    learner: FeatureTsallis

    @property
    def encoder(self) -> Encoder:
        """Makes columns of what is said of visitors."""
        return cast("Encoder", self.params.encoder)

    def merge_some(self) -> bool:
        """Merge some fresh arms, if there are so many that all at the next act would take long; return if any were.

        An act must follow.
        """
        kept = known(self.state)
        at_once = min(max(MERGED_CELLS // (2 * kept.d * kept.d), 1), MERGED_ARMS)
        if is_long := len(kept.fresh) > at_once:
            self.state = self.state._replace(regressions=kept.opened(at_once))
        return is_long

    def act(self, eligible: base.IntArray | None = None, encoded: Encoded | None = None) -> ArmAction:
        """Open the next slot, draw its arm for a visitor and charge it with the default loss, if there is one."""
        if eligible is not None or self.arms.unpaused is not None:
            eligible = self._eligible(eligible)
        encoded = encoded or self.encoder.encode(None)
        (x, missing, clipped), learner, ledger, n = encoded, self.learner, self.ledger, len(self.encoder.features)
        slot = self._open_slot(self.draws, eligible)._replace(x=x)
        said = [count // (1 + (ledger.said[0] >= SAID_TOGETHER)) for count in ledger.said]
        for place in (0, *((1,) if missing else ()), *(2 + at for at in missing), *(2 + n + at for at in clipped)):
            said[place] += 1
        ledger.said = said
        self.state, position = learner.draw(learner.open(self.state, slot), slot)
        arm, p = self.arms.live[position], learner.distribution(self.state).item(position)
        self._opened(self.slot, (position,))
        visit = base.Visit(x, learner.ratios(self.state, position))
        if (default := self.params.charged) is not None and not ledger.silent:
            self.state = learner.heard(self.state, position, visit, default)
        size = len(self.arms.live) if eligible is None else eligible.size
        return ArmAction(self.slot, arm, p, size, visit)

    def settle(self, event: ArmFeedback) -> None:
        position = self.arms.positions[event.arm]
        before = None if self.take(position, slot=event.signed_slot) else self.params.charged
        if event.is_void:
            self.ledger.void_of(position)
        else:
            self.ledger.settle_all((position,), (event.loss,), self.params.expiry)
        loss = None if event.is_void else event.loss
        self.state = self.learner.heard(self.state, position, event.visit or base.Visit(), loss, before)

    def settle_all(self, arms: Sequence[int], losses: Sequence[float], slot: int | None = None) -> None:
        for arm, loss in zip(arms, losses, strict=True):
            self.settle(ArmFeedback(arm, loss, signed_slot=slot))

    def void(self, event: ArmFeedback) -> None:
        self.settle(event._replace(is_void=True))

    def update(self, event: ArmFeedback, before: float) -> None:
        self.ledger.correct(event.loss, before)
        position, visit = self.arms.positions[event.arm], event.visit or base.Visit()
        self.state = self.learner.heard(self.state, position, visit, event.loss, before)

    @property
    def at_once(self) -> int:
        """Events whose ratios are computed at once, in 5 ms at most."""
        return min(max(MERGED_CELLS // (4 * len(self.arms.live) + 2 * self.encoder.columns**2), 1), MERGED_ARMS)

    def find_ratios(self, events: list[ArmFeedback], following: Sequence[int], updated: Mapping[int, Any]) -> None:
        """Give events about the ratios of their acts, where they bring none: for many at once, in one product.

        None of these depends on another event of the slot; but where a decision is taken back, an arm is solved for
        again, so those behind it stay as they are. So do all while what was charged must be looked up: see silence.

        Parameters
        ----------
        events : of a request, which are replaced in it
        following : indexes of those to be settled next, of live arms
        updated : by index, what was learned before of those that update an event
        """
        asked = list[tuple[int, Told]]()
        for index in following if self.act_times is None or not self.act_times.silent else ():
            event, known = events[index], updated.get(index)
            if event.is_void:
                break
            if not event.is_control and (event.visit is None or event.visit.ratios is None):
                x, held = None if event.visit is None else event.visit.x, self.params.charged
                held = held if known is None else known.loss
                asked.append((index, (self.arms.positions[event.arm], x, held)))
        ratios = self.learner.likely_ratios(self.state, [each for _, each in asked]).tolist() if asked else ()
        for (index, (_, x, _)), row in zip(asked, ratios, strict=True):
            events[index] = events[index]._replace(visit=base.Visit(x, tuple(row)))

    def for_visitor(self, x: base.FloatArray) -> base.FloatArray:
        """Return what an act for a visitor would draw from, shape (live arms,): it is 0 for paused arms."""
        p = over(self.learner.for_visitor(self.state, x), self.arms.unpaused, uniform=True)
        return np.asarray(p / p.sum())


@dataclass(slots=True)
class SlotRun(ArmRun):
    """A session over arms, in which feedback names arm and slot."""

    learner: base.SlotLearner[Any]
    open_slots: OpenSlots
    """What open slots left for their feedback."""

    def copy(self) -> Self:
        copied = ArmRun.copy(self)
        copied.open_slots = self.open_slots.copy()
        return copied

    def moved(self, ledger: Ledger, state: Any) -> Self:
        return replace(ArmRun.moved(self, ledger, state), open_slots=OpenSlots())

    def on_written(self, rows: base.Rows) -> None:
        ArmRun.on_written(self, rows)
        self.open_slots = self.open_slots.written()

    def act(self, eligible: base.IntArray | None = None) -> ArmAction:
        """Open the next slot and draw its arm; where that is one open slot too many, drop the oldest before."""
        dropped = self._drop_oldest() if len(self.open_slots) >= self.learner.max_open_slots else None
        action = ArmRun.act(self, eligible)
        record = self.learner.record(self.state, self.arms.positions[action.arm])
        self.open_slots.open(action.slot, action.arm, record)
        return action if dropped is None else action._replace(dropped=dropped)

    def _drop_oldest(self) -> int:
        """Give up the oldest open slot, and return its arm."""
        position, record, _ = self.close(slot := self.open_slots.oldest())
        self.state = self.learner.forget(self.state, record)
        self._give_up(slot, position, None)
        return self.arms.live[position]

    def close(self, slot: int | None) -> tuple[int, base.Record, int]:
        """Close an open slot: the position of its arm, what it left, and 1 if it was opened in silence."""
        arm, record = self.open_slots.close(slot)
        position = self.arms.positions[arm]
        return position, record, self.take(position, slot=slot)

    def _give_up(self, slot: int, position: int, loss: float | None) -> None:
        """Count the decision of a slot as expired."""
        self.ledger.expire_of(position)
        if (control := self.control) is not None and control.restart is not None and slot <= control.restart.slot:
            control.restart.end(0, position, 1, loss)
            control.is_written = False

    def settle(self, event: ArmFeedback) -> None:
        position, record, _ = self.close(event.slot)
        self.ledger.settle_all((position,), (event.loss,), self.params.expiry)
        self.state = self.learner.settle(self.state, position, event.loss, record=record)

    def void(self, event: ArmFeedback) -> None:
        position, record, _ = self.close(event.slot)
        self.ledger.void_of(position)
        self.state = self.learner.forget(self.state, record)

    def check_slot(self, event: ArmFeedback) -> None:
        """Refuse an event that names a slot in which another arm was drawn.

        Raises
        ------
        ValueError
            naming both arms. An unknown or settled slot passes: its event is surplus.
        """
        if (opened := self.open_slots.get(event.slot)) is not None and opened.arm != event.arm:
            raise ValueError(f"slot {event.slot} drew arm {opened.arm}, not {event.arm}")

    def surplus_checker(self) -> SurplusChecker:
        used, open_slots = set[int | None](), self.open_slots
        control_has_decision = ArmRun.surplus_checker(self)

        def has_decision(event: ArmFeedback) -> bool:
            if event.is_control:
                return control_has_decision(event)
            if event.slot in used or event.slot not in open_slots:
                return False
            used.add(event.slot)
            return True

        return has_decision

    def _acted_at(self, times: ActTimes, event: ArmFeedback) -> float | None:
        if event.slot is None or event.is_control:
            return ArmRun._acted_at(self, times, event)  # noqa: SLF001 - see BaseRun on super()
        # How many acts there were since is only known without others between them.
        return None if self.control is not None else times.acted_at(None, self.ledger.slot - event.slot + 1)

    def _settle_removed(self, removed: Sequence[int], positions: base.IntArray) -> None:
        for slot in self.open_slots.of(set(removed)):
            self.state = self.learner.forget(self.state, self.open_slots.close(slot).record)
        ArmRun._settle_removed(self, removed, positions)  # noqa: SLF001 - see BaseRun on super()


Run = ArmRun | PointRun
"""A run of either kind; a ``SlotRun``, a ``ProvisionalRun`` and a ``SegmentRun`` are each an ``ArmRun``."""


def start_run(params: Params) -> Run:
    """Start a run of the kind that the learner needs, before its first slot.

    Raises
    ------
    TypeError
        for a learner neither over arms nor over points, or a provisional default or segments that it can't take.
    """
    learner = params.learner.build()
    if params.encoder is not None:
        learner = FeatureTsallis(params.learner.size, params.encoder.columns, params.initial)
    second = Draws(params.seed, stream=1) if learner.second_stream else None
    draws, state, times = Draws(params.seed), learner.start(), ActTimes.of_session(params.expiry)
    if isinstance(learner, base.PointLearner):
        return PointRun(params, learner, draws, second, Ledger(), state, times, (), None)
    if not isinstance(learner, base.ArmLearner):
        raise TypeError(f"{learner!r} is neither over arms nor over points")
    if params.initial:
        state = learner.warmed(state, params.initial)
    ledger = ArmLedger.of(learner.n_arms, sum(arm.acts for arm in params.initial))
    arms = Arms.of(learner.n_arms, getattr(params.learner, "arms", None))
    ledger.goals, control = (0,) * len(params.goals), None
    if params.control is not None:
        p = probabilities_of(params.control, learner.n_arms, arms.shown_names)
        control = Control(ArmLedger.of(learner.n_arms), ActTimes.of_session(params.expiry), p)
    parts: Any = (params, learner, draws, second, ledger, state, times, (), control, arms)
    if isinstance(learner, base.SlotLearner):
        return SlotRun(*[*parts, OpenSlots()])
    if params.encoder is not None:
        ledger.said = (0,) * (2 + 2 * len(params.encoder.features))
        return FeatureRun(*parts)
    if params.max_segments:
        if not isinstance(learner, base.PooledLearner):
            raise TypeError(f"{learner!r} takes no segments")
        beside: Any = (Segments(learner), start_shared(), KeptSegments(is_whole=True))
        return SegmentRun(*[*parts, *beside])
    if params.expiry is None or not params.expiry.provisional:
        return ArmRun(*parts)
    if not isinstance(learner, base.ProvisionalLearner):
        raise TypeError(f"{learner!r} takes no provisional default")
    return ProvisionalRun(*parts)


def expire_oldest(run: Run) -> Iterator[tuple[int, int, Group]]:
    """Expire what is outstanding of the oldest times of acts; each step expires one arm, or one open slot.

    A session without expiry has nothing to expire. All steps must be taken.

    Yields
    ------
    The arm's index, 0 over points, how many of its decisions expired, and of which group they are.
    """
    times, expiry, control = run.act_times, run.params.expiry, run.control
    if times is None or expiry is None:
        return
    oldest, of_control = next(iter(times.acts)), None if control is None else control.act_times
    times.drop(oldest)
    if of_control is not None:
        of_control.drop(oldest)
    if isinstance(run, ArmRun):
        by_arm, slots = {0: times.before(run.ledger.by_arm)}, list[tuple[int, int]]()
        if isinstance(run, SlotRun):
            later = times.total() + (0 if of_control is None else of_control.total())
            by_arm, slots = {}, run.open_slots.up_to(run.slot - later)
        if control is not None and of_control is not None:
            by_arm[1] = of_control.before(control.ledger.by_arm)
        if run.params.may_fall_silent:
            missed, both = len(slots), [run.ledger] if control is None else [run.ledger, control.ledger]
            run.ledger.miss(missed + sum(int(counts.sum()) for counts in by_arm.values()), both)
        if isinstance(run, SlotRun):
            yield from _expire_slots(run, slots, expiry.loss)
        for group, counts in by_arm.items():
            yield from _expire_arms(run, group, counts, expiry.loss)
    elif count := int(times.before(np.array([run.ledger.outstanding]))[0]):
        run.ledger.expire(count)
        yield 0, count, "learner"


def _expire_arms(run: ArmRun, group: int, counts: Any, loss: float | None) -> Iterator[tuple[int, int, Group]]:
    """Expire as many decisions of each arm, by position, of one of ``GROUPS``."""
    control = run.control
    for position in np.flatnonzero(counts).tolist():
        count = int(counts[position])
        (control if group and control is not None else run).expire(position, count, loss)
        if control is not None and control.restart is not None:
            control.restart.end(group, position, count, loss)
            control.is_written = False
        yield run.arms.live[position], count, GROUPS[group]


def _expire_slots(run: SlotRun, due: Any, loss: float | None) -> Iterator[tuple[int, int, Group]]:
    """Expire open slots of the learner's group, given with their arms."""
    learner = run.learner
    for arm, slot in due:
        position, record, is_uncharged = run.close(slot)
        run._give_up(slot, position, loss)  # noqa: SLF001 - a part of it
        if loss is not None:
            run.ledger.learn(loss)
        if loss is None or is_uncharged or run.ledger.silent:
            run.state = learner.forget(run.state, record)
        else:
            run.state = learner.settle(run.state, position, loss, record=record)
        yield arm, 1, "learner"


def with_params(run: Run, params: Params) -> Run:
    """Return the run with another window, floor or goals; open decisions have the new window from their act on.

    Decisions that were opened without a window have theirs from now on. They expire to the accuracy of the wider of
    the two kinds of buckets. Goals that stay keep their counts.

    Parameters
    ----------
    run : the session's; it stays as it is, and shares its state with the one returned
    params : differ in nothing else; without expiry decisions expire no more
    """
    outstanding = run.ledger.by_arm if isinstance(run, ArmRun) else np.array([run.ledger.outstanding])
    times, control = _times(run.act_times, params.expiry, outstanding, run.ledger.time), run.control
    counts = dict(zip(run.params.goals, run.ledger.goals, strict=True))
    ledger: Any = replace(run.ledger, goals=tuple(counts.get(name, 0) for name in params.goals))
    ledger = ledger if times is run.act_times else replace(ledger, judged=0, late=0, late_events=False)
    ledger = ledger if params.may_fall_silent else replace(ledger, missed=0, silent=False)
    if isinstance(run, ArmRun) and (control is not None or params.control is not None):
        names, n_arms = run.arms.shown_names, len(run.arms.live)
        control = control or Control(ArmLedger.of(n_arms), ActTimes.of_session(params.expiry))
        of_control = _times(control.act_times, params.expiry, control.ledger.by_arm, run.ledger.time)
        control = replace(control, act_times=of_control)
        if times is not None and of_control is not None and not times.acts:
            # The control's fall due by the learner's buckets, too.
            times.acts = {bucket: np.zeros_like(acts) for bucket, acts in of_control.acts.items()}
            times.changed = set(times.acts)
        if params.control is not None and params.control != run.params.control:
            control.p, control.is_written = probabilities_of(params.control, n_arms, names), False
    return replace(run, params=params, ledger=ledger, act_times=times, control=control)


def _times(before: ActTimes | None, expiry: Expiry | None, outstanding: Any, time: float) -> ActTimes | None:
    """Return the acts of ``before`` in buckets of another window, ``outstanding`` by arm without any before."""
    times = ActTimes.of_session(expiry)
    if times is None or (before is not None and before.width == times.width):
        return None if times is None else before
    width = times.width
    present = int(time // width)
    if before is None:
        if outstanding.any():
            times.acts[present] = np.append(0, outstanding)
    else:
        for bucket, acts in before.acts.items():
            # No act of a bucket that is still open is later than now.
            number = min(int((bucket + 1) * before.width // width), present)
            known = times.acts.get(number, acts[:0])
            summed = np.zeros(max(known.size, acts.size), dtype=np.int64)
            summed[: known.size] += known
            summed[: acts.size] += acts
            times.acts[number] = summed
        times.silent = before.silent.copy()
    times.changed = times.numbers
    return times
