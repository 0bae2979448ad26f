"""One session's arithmetic: a learner, its draws and its counts, driven by acts and events.

The service folds requests over a ``Run``; an in-process replay drives the same class, so both give the
same numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..learners.base import (
    ArmLearner,
    FloatArray,
    Learner,
    PointLearner,
    Rows,
    Slot,
    SlotLearner,
)
from .act_times import ActTimes
from .actions import Action, ArmAction, PointAction
from .arms import Arms, Change
from .draws import Draws
from .feedback import ArmFeedback, Feedback
from .ledger import Ledger
from .open_slots import OpenSlots
from .params import Params
from .surplus import Judge, judge_of


@dataclass(slots=True)
class Run:
    """A session's learner at one moment. ``copy`` before changing a run that others may read."""

    params: Params
    learner: Learner[Any]
    draws: Draws
    second_draws: Draws | None
    ledger: Ledger
    state: Any
    roster: Arms | None = None
    """The arms, for learners over arms."""
    open_slots: OpenSlots | None = None
    """What open slots left for their feedback, for learners that need the slot."""
    buckets: ActTimes | None = None
    """When outstanding decisions were taken, in sessions whose decisions expire."""
    stored_rows: Rows = ()
    """The rows of the state as the store holds them."""

    @classmethod
    def start(cls, params: Params) -> Run:
        """A run before its first slot."""
        learner = params.learner.build()
        n_arms = learner.n_arms if isinstance(learner, ArmLearner) else None
        return cls.at(params, Ledger.of(n_arms), learner.start(), learner)

    @classmethod
    def at(cls, params: Params, ledger: Ledger, state: Any, learner: Learner[Any] | None = None) -> Run:
        """A run taken up again."""
        learner = learner or params.learner.build()
        second = Draws(params.seed, stream=1) if learner.second_stream else None
        names = getattr(params.learner, "arms", None)
        roster = Arms.of(learner.n_arms, names) if isinstance(learner, ArmLearner) else None
        open_slots = OpenSlots() if isinstance(learner, SlotLearner) else None
        buckets = None if params.expiry is None else ActTimes.of(params.expiry.after_seconds)
        return cls(params, learner, Draws(params.seed), second, ledger, state, roster, open_slots, buckets)

    def moved(
        self, ledger: Ledger, state: Any, open_slots: OpenSlots | None = None, buckets: ActTimes | None = None
    ) -> Run:
        """The same session and arms at another moment; learner and draws are shared."""
        drawing = (self.params, self.learner, self.draws, self.second_draws)
        return Run(*drawing, ledger, state, self.roster, open_slots, buckets, self.stored_rows)

    def with_roster(self, roster: Arms | None) -> Run:
        """The same session with the arms it had at the moment of its state."""
        return self if roster is self.roster else replace(self, roster=roster)

    @property
    def arms(self) -> Arms:
        """The roster of a learner over arms."""
        assert self.roster is not None  # noqa: S101 - only asked of them
        return self.roster

    def copy(self) -> Run:
        """A run that may be stepped without changing this one."""
        slots, buckets = self.open_slots, self.buckets
        return self.moved(
            self.ledger.copy(),
            self.state,
            None if slots is None else slots.copy(),
            None if buckets is None else buckets.copy(),
        )

    def advance(self, time: float) -> None:
        """Let time pass; decisions that become due by it are to be expired before anything else is done."""
        self.ledger.advance(time)

    @property
    def due(self) -> bool:
        """Whether decisions have had their time."""
        due_at = None if self.buckets is None else self.buckets.due_at()
        return due_at is not None and due_at <= self.ledger.time

    def act(self) -> Action:
        """Open the next slot and draw its action."""
        if isinstance(self.learner, ArmLearner):
            return self.draw_arm()
        t = self.open_point()
        assert isinstance(self.learner, PointLearner)  # noqa: S101 - the other kind of learner
        return PointAction(t, self.learner.x(self.state), self.learner.query_points(self.state))

    def draw_arm(self) -> ArmAction:
        """Open the next slot of a learner over arms and draw one."""
        assert isinstance(self.learner, ArmLearner)  # noqa: S101 - only called for them
        self._make_room()
        slot = self._next_slot(self.draws)
        return self._act_arm(self.learner, slot)

    def open_point(self) -> int:
        """Open the next slot of a learner over points; its state then tells what to play."""
        slot = self._next_slot(None)
        self.state = self.learner.open(self.state, slot)
        if self.buckets is not None:
            self.buckets.act(self.ledger.time, 0, 1)
        return slot.t

    def _next_slot(self, draws: Draws | None) -> Slot:
        outstanding = self.ledger.outstanding
        t = self.ledger.open()
        v = self.second_draws.uniform(t) if self.second_draws is not None else 0.0
        return Slot(t, outstanding, 0.0 if draws is None else draws.uniform(t), v)

    def _act_arm(self, learner: ArmLearner[Any], slot: Slot) -> ArmAction:
        self.state, position = learner.draw(learner.open(self.state, slot), slot)
        arm = self.arms.live[position]
        assert self.ledger.by_arm is not None  # noqa: S101 - ArmLearner sessions always count by arm
        self.ledger.by_arm[arm] += 1
        if self.buckets is not None:
            self.buckets.act(self.ledger.time, arm, self.ledger.by_arm.size)
        if self.open_slots is not None:
            assert isinstance(learner, SlotLearner)  # noqa: S101 - only they have open slots
            self.open_slots.open(slot.t, arm, learner.record(self.state, position))
        return ArmAction(slot.t, arm, float(learner.distribution(self.state)[position]))

    def _make_room(self) -> None:
        """Drop the oldest open slot where another one would be too many."""
        if self.open_slots is None:
            return
        assert isinstance(self.learner, SlotLearner)  # noqa: S101 - only they have open slots
        if len(self.open_slots) >= self.learner.max_open_slots:
            dropped = self.open_slots.close(self.open_slots.oldest())
            self.state = self.learner.forget(self.state, dropped.record)
            self.ledger.expire(dropped.arm)

    def check_slot(self, event: ArmFeedback) -> None:
        """Refuse an event whose slot drew another arm.

        Raises
        ------
        ValueError
            naming both arms. An unknown or settled slot passes: its event is surplus.
        """
        if self.open_slots is None or event.slot is None:
            return
        opened = self.open_slots.get(event.slot)
        if opened is not None and opened.arm != event.arm:
            raise ValueError(f"slot {event.slot} drew arm {opened.arm}, not {event.arm}")

    def is_removed(self, event: Feedback) -> bool:
        """Whether an event is of an arm that was removed, and changes nothing."""
        return isinstance(event, ArmFeedback) and not self.arms.is_live(event.arm)

    def surplus(self, events: Sequence[Feedback]) -> list[int]:
        """Indexes of the events no outstanding decision can have caused."""
        answers = self.judge()
        return [index for index, event in enumerate(events) if not answers(event)]

    def judge(self) -> Judge:
        """See ``judge_of``."""
        return judge_of(self.ledger, self.open_slots)

    def delay(self, event: Feedback) -> float | None:
        """Seconds since the act that an event, not surplus, will settle; None where no times are kept."""
        if self.buckets is None:
            return None
        if not isinstance(event, ArmFeedback) or self.ledger.by_arm is None:
            acted_at = self.buckets.acted_at(0, self.ledger.outstanding)
        elif self.open_slots is not None and event.slot is not None:
            acted_at = self.buckets.opened_at(self.ledger.slot - event.slot)
        else:
            acted_at = self.buckets.acted_at(event.arm, int(self.ledger.by_arm[event.arm]))
        return None if acted_at is None else max(0.0, self.ledger.time - acted_at)

    def settle(self, event: Feedback) -> None:
        """Apply one event that is not surplus."""
        self.ledger.settle()
        if isinstance(event, ArmFeedback):
            assert isinstance(self.learner, ArmLearner)  # noqa: S101 - sessions check the kind of event first
            assert self.ledger.by_arm is not None  # noqa: S101 - ArmLearner sessions always count by arm
            self.ledger.by_arm[event.arm] -= 1
            self.state = self._learned(self.learner, event)
        else:
            assert isinstance(self.learner, PointLearner)  # noqa: S101 - sessions check the kind of event first
            self.state = self.learner.settle(self.state, event.values, self.ledger.outstanding)

    def _learned(self, learner: ArmLearner[Any], event: ArmFeedback) -> Any:
        position = self.arms.positions[event.arm]
        if self.open_slots is None:
            return learner.settle(self.state, position, event.loss)
        assert isinstance(learner, SlotLearner)  # noqa: S101 - only they have open slots
        assert event.slot is not None  # noqa: S101 - sessions check that the slot is named
        return learner.settle(self.state, position, event.loss, record=self.open_slots.close(event.slot).record)

    def change_arms(self, change: Change) -> None:
        """Let arms go, their outstanding decisions settled as removed, and then others come; one has to stay."""
        learner, roster = self.learner, self.arms
        assert isinstance(learner, ArmLearner)  # noqa: S101 - only they have a roster
        self.roster = roster.changed(change)
        if change.removed:
            self._settle_removed(learner, change.removed)
            positions = np.array([roster.positions[arm] for arm in change.removed])
            self.state = learner.remove_arms(self.state, positions)
        if change.added:
            self.ledger.add_arms(len(change.added))
            self.state = learner.add_arms(self.state, len(change.added))

    def _settle_removed(self, learner: ArmLearner[Any], removed: Sequence[int]) -> None:
        if self.open_slots is not None:
            assert isinstance(learner, SlotLearner)  # noqa: S101 - only they have open slots
            for slot in self.open_slots.of(set(removed)):
                self.state = learner.forget(self.state, self.open_slots.close(slot).record)
        self.state = learner.give_up(self.state, self.ledger.remove(removed))

    @property
    def probabilities(self) -> FloatArray:
        """What a view shows of a learner over arms, by index, 0 for removed ones; uniform before the first act."""
        assert isinstance(self.learner, ArmLearner)  # noqa: S101
        return self.arms.spread(np.asarray(self.learner.probabilities(self.state)))
