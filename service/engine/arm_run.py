"""A session over arms: the arms it has had, what all runs share, and the run that acts, learns and changes arms."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from itertools import takewhile
from operator import attrgetter
from typing import Any, NamedTuple, Self, cast

import numpy as np

from ..learners.base import ArmLearner, FloatArray, IntArray, Learner, Rows, Slot, draw_all
from ..learners.maths import LARGEST_DELAYS
from .control import STRETCH, Control, is_in_control, together
from .ledger import ActTimes, ArmAction, ArmActions, ArmFeedback, ArmLedger, Draws, Ledger, Params

SurplusChecker = Callable[[Any], bool]
"""Call it with one event after another; see ``BaseRun.surplus_checker``."""


class Change(NamedTuple):
    """Arms to remove, by index, and labels of the arms to add after that."""

    removed: Sequence[int]
    added: Sequence[str]


class Removed(NamedTuple):
    """An arm that was removed, while its events may still come."""

    arm: int
    """Its index."""
    until: float
    """Unix seconds from which on its label is unknown."""


RemovedLabels = Mapping[str, Removed] | None
"""By labels that no live arm has, in the order of their removal; None: they are still to be read."""
Names = Sequence[str] | Mapping[int, str] | None
"""Labels of live arms, by index; None in sessions without."""


@dataclass(frozen=True, slots=True, eq=False)
class Arms:
    """The arms of a session. An index is given once; learners and counts know live arms, by position 0, 1, ..."""

    live: Sequence[int]
    """Position to index, in ascending order; a range if both are the same."""
    positions: Sequence[int] | Mapping[int, int]
    """Index of a live arm to its position."""
    size: int
    """Number of arms there ever were, which is the next one's index."""
    names: Names = None
    labels: Mapping[str, int] | None = None
    """Label to the index of the live arm that has it."""
    paused: frozenset[int] = frozenset()
    """Live arms, by index, that are never drawn."""
    unpaused: IntArray | None = None
    """Positions of the live arms that are not paused, ascending; None where none is paused."""
    removed: RemovedLabels = None

    @classmethod
    def of(cls, n_arms: int, names: Sequence[str] | None = None) -> Arms:
        """Start with one or more live arms, which have different labels, or none at all."""
        return _unnamed(n_arms) if names is None else cls.at(range(n_arms), n_arms, names, (), {})

    @classmethod
    def at(
        cls, live: Sequence[int], size: int, names: Sequence[str], paused: Iterable[int], removed: RemovedLabels
    ) -> Arms:
        """Return arms with labels, ``names`` by position; ``paused`` are some of the ``live`` ones."""
        positions, by_index = cast("Any", range(len(live))), cast("Any", names)
        if not live or live[-1] == len(live) - 1:
            live = positions
        else:
            positions, by_index = dict(zip(live, positions, strict=True)), dict(zip(live, names, strict=True))
        labels, pauses = dict(zip(names, live, strict=True)), _pauses(positions, len(live), paused)
        return cls(live, positions, size, by_index, labels, *pauses, removed)

    @property
    def shown_names(self) -> Sequence[str] | None:
        """Labels by position."""
        return list(self.names.values()) if isinstance(self.names, Mapping) else self.names

    def is_live(self, arm: int) -> bool:
        """Return whether an arm, by index, has not been removed."""
        return arm in self.positions

    def find(self, names: Iterable[int | str]) -> tuple[IntArray, int]:
        """Find the arms, by index or label, that may be drawn.

        Returns
        -------
        their positions, ascending, and how many different names are not of such an arm: they are of a removed or
        paused arm, or of none
        """
        different, positions, labels = set(names), self.positions, self.labels or {}
        arms = [labels.get(name, -1) if isinstance(name, str) else name for name in different]
        found = sorted(positions[arm] for arm in arms if arm in positions and arm not in self.paused)
        return np.array(found, dtype=np.int64), len(different) - len(found)

    def without(self, positions: IntArray) -> IntArray:
        """Return the positions, ascending, of the arms that may be drawn, but for these positions."""
        may_be_drawn = np.ones(len(self.live), dtype=bool)
        may_be_drawn[positions] = False
        if self.unpaused is not None:
            return self.unpaused[may_be_drawn[self.unpaused]]
        return np.flatnonzero(may_be_drawn)

    def with_pauses(self, resume: Iterable[str], pause: Iterable[str]) -> Arms:
        """Return the arms after resuming some and then pausing others; labels of no live arm change nothing."""
        resumed, stopped = self._live_arms(resume), self._live_arms(pause)
        paused = (self.paused - resumed) | stopped
        if paused == self.paused:
            return self
        paused, unpaused = _pauses(self.positions, len(self.live), paused)
        return replace(self, paused=paused, unpaused=unpaused)

    def _live_arms(self, labels: Iterable[str]) -> frozenset[int]:
        known = self.labels or {}
        return frozenset(known[label] for label in labels if label in known)

    def change(self, add: Iterable[str], remove: Iterable[str]) -> Change:
        """Return what removing some labels and then adding others changes.

        Labels to remove that no live arm has, and labels to add that one has, change nothing. A label that is in
        both is given to a new arm.
        """
        labels = self.labels or {}
        leaving = {label for label in remove if label in labels}
        coming = [label for label in dict.fromkeys(add) if label in leaving or label not in labels]
        return Change(sorted(labels[label] for label in leaving), coming)

    def changed(self, change: Change, until: float = math.inf, now: float = 0.0) -> Arms:
        """Return the arms after a change.

        Parameters
        ----------
        change : as ``self.change`` makes it
        until : Unix seconds to which labels that it removes stay known
        now : Unix seconds; of those removed before, labels whose time is over are forgotten
        """
        names, size, gone = self.names or (), self.size + len(change.added), set(change.removed)
        kept = [arm for arm in self.live if arm not in gone]
        removed = dict(self.removed or {})
        is_over = [*takewhile(lambda label: removed[label].until <= now, removed)]
        removed |= {names[arm]: Removed(arm, until) for arm in change.removed}
        for label in (*is_over, *change.added):
            removed.pop(label, None)
        shown = [*(names[arm] for arm in kept), *change.added]
        return Arms.at([*kept, *range(self.size, size)], size, shown, self.paused - gone, removed)


@lru_cache(maxsize=64)
def _unnamed(n_arms: int) -> Arms:
    """Return arms without labels, which never change: sessions share them."""
    return Arms(range(n_arms), range(n_arms), n_arms, removed={})


def _pauses(positions: Any, n_live: int, paused: Iterable[int]) -> tuple[frozenset[int], IntArray | None]:
    """Return the paused arms, by index, and the positions of the others, None where none is paused."""
    stopped = frozenset(paused)
    if not stopped:
        return stopped, None
    may_be_drawn = np.ones(n_live, dtype=bool)
    may_be_drawn[[positions[arm] for arm in stopped]] = False
    return stopped, np.flatnonzero(may_be_drawn)


@dataclass(slots=True)
class BaseRun:
    """A session's learner at one moment. ``copy`` a run before changing it where others may read it.

    No ABC: to ask whether a run is of another kind would take half a microsecond, several times a request.
    Subclasses call a method they override as ``ArmRun.act(self)``: ``super()`` does not work in a dataclass
    with slots before Python 3.14.
    """

    params: Params
    learner: Learner[Any]
    draws: Draws
    second_draws: Draws | None
    """The v_t, for learners with ``second_stream``."""
    ledger: Ledger
    state: Any
    """The learner's state."""
    act_times: ActTimes | None
    """When outstanding decisions were taken, in sessions with expiry."""
    stored_rows: Rows
    """The rows of the state as the store holds them; rows that differ are to be written."""
    control: Control | None
    """The control group, in sessions that have or had one. The rest of the run is the learner's group."""

    def copy(self) -> Self:
        """Copy the run, so that the copy may be stepped alone."""
        copied: Self = _again(self)
        copied.ledger = ledger = _again(self.ledger)
        if isinstance(ledger, ArmLedger):
            ledger.by_arm = ledger.by_arm.copy()
            if self.control is not None:
                copied.control = self.control.copy()
        if self.act_times is not None:
            copied.act_times = self.act_times.copy()
        return copied

    def with_seed(self, seed: int) -> Self:
        """Return the run of another session that was created with equal fields; it shares all but the draws."""
        copied: Self = _again(self)
        copied.params, copied.draws = self.params._replace(seed=seed), Draws(seed)
        copied.second_draws = None if self.second_draws is None else Draws(seed, stream=1)
        return copied

    def moved(self, ledger: Ledger, state: Any) -> Self:
        """Return the run of the same session and arms at another moment; it shares learner and draws.

        The counts and the learner's state of that moment are not copied. What a session keeps beside its state
        (open slots, times of acts, rows) is empty: it is still to be read.
        """
        copied: Self = _again(self)
        copied.ledger, copied.state, copied.stored_rows = ledger, state, ()
        copied.act_times, copied.control = ActTimes.of_session(self.params.expiry), None
        return copied

    def on_written(self, rows: Rows) -> None:
        """Note that the store holds all changes of the run, with ``rows`` as the state's rows."""
        self.stored_rows = rows
        if self.act_times is not None:
            self.act_times = self.act_times.written()
        if self.control is not None:
            self.control.on_written()

    def advance(self, time: float) -> None:
        """Set the time, in Unix seconds, unless it would go back.

        Decisions due by then must be expired before anything else is done.
        """
        if time > self.ledger.time:
            self.ledger.time = time

    @property
    def slot(self) -> int:
        """The session's latest slot, of any group."""
        return self.ledger.slot if self.control is None else self.ledger.slot + self.control.ledger.slot

    @property
    def counts(self) -> Ledger:
        """The counts of the session, of all groups."""
        return self.ledger if self.control is None else together(self.ledger, self.control.ledger)

    @property
    def due(self) -> bool:
        """Whether the time of some outstanding decisions is over."""
        due_at = None if self.act_times is None else self.act_times.due_at()
        return due_at is not None and due_at <= self.ledger.time

    def apply(self, event: Any, before: float | None = None, since: int = 0) -> None:  # noqa: ARG002 - see ArmRun
        """Settle or void the decision of an event that is not surplus."""
        (self.void if event.is_void else self.settle)(event)

    @abstractmethod
    def settle(self, event: Any) -> None:
        """Learn from one event that is not surplus: an ``ArmFeedback``, or over points a ``PointFeedback``."""

    @abstractmethod
    def void(self, event: Any) -> None:
        """Take back the decision that an event, not surplus, answers: nothing is learned of it."""

    @abstractmethod
    def surplus_checker(self) -> SurplusChecker:
        """Return a function that tells of one event after another whether a decision is left for it, and takes it.

        An event for which none is left is surplus. Counts and open slots of the run stay as they are, and must not
        be changed meanwhile.
        """

    def surplus(self, events: Sequence[Any]) -> list[int]:
        """Return the indexes of the events that no outstanding decision can have caused, judged in their order."""
        has_decision = self.surplus_checker()
        return [index for index, event in enumerate(events) if not has_decision(event)]

    def is_removed(self, event: Any) -> bool:  # noqa: ARG002 - arms can be removed, points cannot
        """Return whether an event is of a removed arm; such an event changes nothing."""
        return False

    def delay(self, event: Any) -> float | None:
        """Return the seconds since the act that an event, not surplus, will settle; None without expiry."""
        acted_at = None if self.act_times is None else self._acted_at(self.act_times, event)
        return None if acted_at is None else max(0.0, self.ledger.time - acted_at)

    @abstractmethod
    def _acted_at(self, times: ActTimes, event: Any) -> float | None:
        """Return the Unix time of the act that an event will settle."""

    def _open_slot(self, draws: Draws | None, eligible: IntArray | None = None) -> Slot:
        """Close the open slot and open the next; without ``draws`` its u is 0.

        The learner counts the slots of its group; u and v are those of the session's slot.
        """
        ledger, expiry, outstanding = self.ledger, self.params.expiry, self.ledger.outstanding
        ledger.total_delay = min(ledger.total_delay + outstanding, LARGEST_DELAYS)
        ledger.slot = t = ledger.slot + 1
        ledger.outstanding += 1
        ledger.last_act_at = ledger.time
        at = t if self.control is None else t + self.control.ledger.slot
        v = self.second_draws.uniform(at) if self.second_draws is not None else 0.0
        u = 0.0 if draws is None else draws.uniform(at)
        return Slot(t, outstanding, u, v, eligible, self.params.floor, expiry is not None and expiry.provisional)


def _again(whole: Any) -> Any:
    """Return a run, or a ledger, of the same parts, in a third of the time that ``replace`` takes."""
    kind: Any = type(whole)
    return kind(*_values_of(kind)(whole))


@lru_cache(maxsize=16)
def _values_of(kind: type[Any]) -> Callable[[Any], tuple[Any, ...]]:
    """Return a function that returns the values of all fields of a run, or ledger, of this kind, in their order."""
    return attrgetter(*(field.name for field in fields(kind)))


@dataclass(slots=True)
class ArmRun(BaseRun):
    """A session over arms, in which feedback names an arm and no slot.

    Learners know arms by position among the live ones; everybody else knows them by index.
    """

    learner: ArmLearner[Any]
    ledger: ArmLedger
    arms: Arms

    def act(self, eligible: IntArray | None = None) -> ArmAction:
        """Open the next slot and draw its arm; ``can_draw`` must be true of the same eligible arms.

        Parameters
        ----------
        eligible : positions of the arms that may be drawn, ascending, none of them paused; None: all but the
            paused ones. Only where the learner ``takes_eligible``.
        """
        if eligible is not None or self.arms.unpaused is not None:
            eligible = self._eligible(eligible)
        slot, learner = self._open_slot(self.draws, eligible), self.learner
        self.state, position = learner.draw(learner.open(self.state, slot), slot)
        live, number = self.arms.live, self.slot
        self._opened(number, (position,))
        weights, total = learner.weights(self.state)
        size = len(live) if eligible is None else eligible.size
        return ArmAction(number, live[position], weights.item(position) / total, size)

    def act_all(self, count: int, eligible: IntArray | None = None) -> ArmActions:
        """Open slots in a row as ``act`` does one by one: those of the next ``count`` that can be drawn at once.

        These are one or more, of two or more. Not for runs whose acts do something besides.
        """
        eligible = self._eligible(eligible)
        slot = self._open_slot(self.draws, eligible)
        first = self.slot
        self.state, opened = self.learner.open_all(self.state, slot, count)
        weights, total = self.learner.weights(self.state)
        if opened == 1:
            self.state, *positions = self.learner.draw(self.state, slot)
        else:
            ledger, more = self.ledger, opened - 1
            delays = more * ledger.outstanding + more * (more - 1) // 2
            ledger.total_delay = min(ledger.total_delay + delays, LARGEST_DELAYS)
            ledger.slot += more
            ledger.outstanding += more
            positions = draw_all(weights, self.draws.uniforms(first, opened) * total).tolist()
        live = self.arms.live
        arms = positions if isinstance(live, range) else [live[position] for position in positions]
        self._opened(first, positions)
        size = len(live) if eligible is None else eligible.size
        return ArmActions(first, arms, (weights[positions] / total).tolist(), size)

    def is_control(self, slot: int, visitor: str | None = None) -> bool:
        """Return whether an act is one of the control group, in a session where some are."""
        control, params = self.control, self.params.control
        if control is None or params is None:
            return False
        name = b"s%d" % slot if visitor is None else b"v" + visitor.encode()
        return control.ledger.halted_at > 0 or is_in_control(params, self.params.seed, name)

    def stretch(self, most: int) -> tuple[bool, int]:
        """Return whether the next slot is of the control group, and how many slots like it come, at ``most``."""
        is_control, count, most = self.is_control(first := self.slot + 1), 1, min(most, STRETCH)
        while count < most and self.is_control(first + count) == is_control:
            count += 1
        return is_control, count

    def _opened(self, slot: int, positions: Sequence[int]) -> None:
        """Count decisions of these arms, in slots from this one on."""
        times, counts, is_silent = self.act_times, self.ledger.by_arm.data, self.ledger.silent
        for number, position in enumerate(positions, slot):
            if is_silent and times is not None:
                times.leave_uncharged(self.arms.live[position], number, counts[position])
            counts[position] += 1
        if times is not None:
            times.act(self.ledger.time, positions, len(counts))

    def take(self, position: int, count: int = 1, slot: int | None = None) -> int:
        """Return how many of an arm's oldest decisions, which end now, or of a slot's were made in silence."""
        times, arm = self.act_times, self.arms.live[position]
        return 0 if times is None else times.take(arm, count, slot, self.ledger.by_arm.item(position))

    def can_draw(self, eligible: IntArray | None = None) -> bool:
        """Return whether an act with these eligible arms can draw one; see ``act``."""
        eligible = self._eligible(eligible)
        if eligible is None:
            return True
        return eligible.size > 0 and self.learner.can_draw(self.state, eligible, self.params.floor)

    def _eligible(self, eligible: IntArray | None) -> IntArray | None:
        """Return the positions of the arms that may be drawn, None where these are all arms."""
        eligible = self.arms.unpaused if eligible is None else eligible
        return None if eligible is None or eligible.size == len(self.arms.live) else eligible

    def apply(self, event: ArmFeedback, before: float | None = None, since: int = 0) -> None:
        """Settle or void the decision of an event that is not surplus, or update what was learned of an event.

        Parameters
        ----------
        event : of a live arm
        before : the loss that was learned; None unless the event updates it
        since : ``Learned.since`` of what is updated
        """
        control = self.control
        if control is not None and control.restart is not None:
            control.restart.apply(self, event, before, since)
            control.is_written = False
        if event.is_control and control is not None:
            control.apply(self, event, before)
        elif before is not None:
            self.update(event, before)
        else:
            (self.void if event.is_void else self.settle)(event)

    @property
    def outstanding_by_arm(self) -> IntArray:
        """Outstanding decisions of each live arm, of all groups, shape (live arms,)."""
        own = self.ledger.by_arm
        return own if self.control is None else own + self.control.ledger.by_arm

    def settle(self, event: ArmFeedback) -> None:
        self.settle_all((event.arm,), (event.loss,), event.signed_slot)

    def settle_all(self, arms: Sequence[int], losses: Sequence[float], slot: int | None = None) -> None:
        """Settle events that are not surplus, of arms by index, as ``settle`` does one after the other.

        None of the arms is removed; losses are on the learner's scale. ``slot`` is that of a single event's token.
        """
        positions = [self.arms.positions[arm] for arm in arms]
        for position in positions:
            self.take(position, slot=slot)
        self.ledger.settle_all(positions, losses, self.params.expiry)
        self.state = self.learner.settle_all(self.state, positions, losses)

    def update(self, event: ArmFeedback, before: float) -> None:
        """Learn the better loss of an event, of a live arm, in the place of the one that was learned ``before``.

        No decision is settled. Only for learners whose specification ``takes_updates``.
        """
        learner: Any = self.learner
        self.ledger.correct(event.loss, before)
        self.state = learner.correct(self.state, self.arms.positions[event.arm], event.loss, before)

    def delays(self, arms: Sequence[int]) -> Sequence[float]:
        """Return ``delay`` of events of these arms, settled in this order, none of them surplus.

        Returns
        -------
        seconds, in the order of the events; without expiry none, and none for an act that is older than all buckets
        """
        if self.act_times is None:
            return ()
        left, found = dict[int, int](), []
        for arm in arms:
            position = self.arms.positions[arm]
            outstanding = left[position] if position in left else int(self.ledger.by_arm[position])
            left[position] = outstanding - 1
            if (acted_at := self.act_times.acted_at(position, outstanding)) is not None:
                found.append(max(0.0, self.ledger.time - acted_at))
        return found

    def void(self, event: ArmFeedback) -> None:
        position = self.arms.positions[event.arm]
        self.take(position, slot=event.signed_slot)
        self.ledger.void_of(position)
        self.state = self.learner.void(self.state, position)

    def expire(self, position: int, count: int, loss: float | None) -> None:
        """Give up one or more outstanding decisions of an arm and learn ``loss`` of them in one step.

        It is on the learner's scale; None: nothing is learned. In silence, and of decisions made in it, it counts
        in the mean alone; so it does if it was learned already, when they were charged. Segments find out by
        themselves which of their decisions have expired, when they are next used.
        """
        heard = (count - self.take(position, count)) * (not self.ledger.silent)
        self.ledger.expire_of(position, count)
        if loss is None:
            self.state = self.learner.expire(self.state, count)
            return
        self.ledger.learn(loss, count)
        if self.params.charged is None:
            self.state = self.learner.give_up(self.state, count - heard) if heard < count else self.state
            self.state = self.learner.settle(self.state, position, loss, heard) if heard else self.state

    def surplus_checker(self) -> SurplusChecker:
        left, outstanding, positions = dict[int, int](), self.ledger.by_arm, self.arms.positions
        if self.control is not None:
            outstanding = np.append(outstanding, self.control.ledger.by_arm)

        def has_decision(event: ArmFeedback) -> bool:
            place = positions[event.arm]
            if event.is_control:
                place += self.ledger.by_arm.size
            left[place] = left.get(place, int(outstanding[place])) - 1
            return left[place] >= 0

        return has_decision

    def judge(self, settled: int, surplus: Sequence[int]) -> None:
        """Count events that settled decisions, and surplus ones, by arm: the latter may have come too late."""
        late = 0 if self.act_times is None else self.act_times.late(self.ledger.time, surplus)
        self.ledger.judge(settled + len(surplus), late)

    def is_removed(self, event: ArmFeedback) -> bool:
        return not self.arms.is_live(event.arm)

    def _acted_at(self, times: ActTimes, event: ArmFeedback) -> float | None:
        position, ledger = self.arms.positions[event.arm], self.ledger
        if event.is_control and self.control is not None:
            ledger, times = self.control.ledger, self.control.act_times or times
        return times.acted_at(position, int(ledger.by_arm[position]))

    def change_arms(self, change: Change, after: Arms | None = None, *, adds_first: bool = False) -> None:
        """Remove arms, their outstanding decisions settled as removed, and then add others.

        Parameters
        ----------
        change : as ``self.arms.change`` makes it
        after : the arms after that, with other pauses, say; None: ``self.arms.changed(change)``
        adds_first : whether arms are added before others are removed; if not, at least one arm must stay
        """
        before, self.arms = self.arms, self.arms.changed(change) if after is None else after
        if adds_first:
            self._add(len(change.added))
        if change.removed:
            positions = np.array([before.positions[arm] for arm in change.removed])
            self._settle_removed(change.removed, positions)
            self.state = self.learner.remove_arms(self.state, positions)
        if not adds_first:
            self._add(len(change.added))

    def _add(self, count: int) -> None:
        if count:
            self.ledger.add_arms(count)
            if self.control is not None:
                self.control.add(count)
            self.state = self.learner.add_arms(self.state, count)

    def _settle_removed(self, removed: Sequence[int], positions: IntArray) -> None:
        default = None if (expiry := self.params.expiry) is None else expiry.loss
        if self.control is not None:
            self.control.remove(positions, default)
        count = self.ledger.remove(positions)
        self.state = self.learner.give_up(self.state, count)
        if count and default is not None:  # No click of theirs will count any more.
            self.ledger.learn(default, count)
        if self.act_times is not None:
            self.act_times.remove(positions, removed)

    @property
    def probabilities(self) -> FloatArray:
        """The distribution shown to readers, shape (live arms,); it is 0 for paused arms."""
        return np.asarray(self.learner.probabilities(self.state, self.arms.unpaused, self.params.floor))
