"""The run of a learner over arms that must know which slot a loss belongs to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from ..learners.base import IntArray, Rows, SlotLearner
from .act_times import ActTimes
from .actions import ArmAction, ArmActions
from .arm_run import ArmRun
from .feedback import ArmFeedback
from .ledger import Ledger
from .open_slots import OpenSlots
from .surplus import SurplusChecker, check_by_slot


@dataclass(slots=True)
class SlotRun(ArmRun):
    """A session over arms, in which feedback names arm and slot."""

    learner: SlotLearner[Any]
    open_slots: OpenSlots
    """What open slots left for their feedback."""

    def copy(self) -> Self:
        copied = ArmRun.copy(self)
        copied.open_slots = self.open_slots.copy()
        return copied

    def moved(self, ledger: Ledger, state: Any) -> Self:
        return replace(ArmRun.moved(self, ledger, state), open_slots=OpenSlots())

    def on_written(self, rows: Rows) -> None:
        ArmRun.on_written(self, rows)
        self.open_slots = self.open_slots.written()

    def act(self, eligible: IntArray | None = None) -> ArmAction:
        """Open the next slot and draw its arm; where that is one open slot too many, drop the oldest before."""
        if len(self.open_slots) >= self.learner.max_open_slots:
            self._drop_oldest()
        action = ArmRun.act(self, eligible)
        record = self.learner.record(self.state, self.arms.positions[action.arm])
        self.open_slots.open(action.slot, action.arm, record)
        return action

    def act_all(self, count: int, eligible: IntArray | None = None) -> ArmActions:
        """Open slots in a row as ``act`` does one by one; the oldest are dropped for them where there is no room.

        Parameters
        ----------
        count : one or more
        eligible : as for ``act``
        """
        room = max(0, self.learner.max_open_slots - len(self.open_slots))
        dropped = [] if room else [self._drop_oldest()]
        # Where dropping changes the state, the next slot may have another distribution.
        most = room or (len(self.open_slots) + 1 if _forgets_nothing(self.learner) else 1)
        if min(count, most) == 1:
            slot, arm, probability, size = ArmRun.act(self, eligible)
            actions = ArmActions(slot, (arm,), (probability,), size, dropped)
        else:
            actions = ArmRun.act_all(self, min(count, most), eligible)
            if dropped:
                actions = actions._replace(dropped=dropped + self._drop_before(len(actions.arms)))
        self._open_all(actions)
        return actions

    def _open_all(self, actions: ArmActions) -> None:
        positions, state = self.arms.positions, self.state
        records = {arm: self.learner.record(state, positions[arm]) for arm in dict.fromkeys(actions.arms)}
        for slot, arm in enumerate(actions.arms, actions.slot):
            self.open_slots.open(slot, arm, records[arm])

    def _drop_before(self, count: int) -> list[int]:
        """Drop what each but the first of ``count`` slots had no room for, which were opened without that."""
        # One more was counted as outstanding at each of them than at the one before.
        self.ledger.total_delay -= count * (count - 1) // 2
        return [self._drop_oldest() for _ in range(1, count)]

    def _drop_oldest(self) -> int:
        """Give up the oldest open slot, and return its arm."""
        dropped = self.open_slots.close(self.open_slots.oldest())
        self.state = self.learner.forget(self.state, dropped.record)
        self.ledger.expire_of(dropped.arm)
        return dropped.arm

    def settle(self, event: ArmFeedback) -> None:
        self._count_settled(event)
        record = self.open_slots.close(event.slot).record
        position = self.arms.positions[event.arm]
        self.state = self.learner.settle(self.state, position, event.loss, record=record)

    def void(self, event: ArmFeedback) -> None:
        self.ledger.void_of(event.arm)
        self.state = self.learner.forget(self.state, self.open_slots.close(event.slot).record)

    def check_slot(self, event: ArmFeedback) -> None:
        """Refuse an event that names a slot in which another arm was drawn.

        Raises
        ------
        ValueError
            naming both arms. An unknown or settled slot passes: its event is surplus.
        """
        opened = self.open_slots.get(event.slot)
        if opened is not None and opened.arm != event.arm:
            raise ValueError(f"slot {event.slot} drew arm {opened.arm}, not {event.arm}")

    def surplus_checker(self) -> SurplusChecker:
        return check_by_slot(self.open_slots)

    def _acted_at(self, times: ActTimes, event: ArmFeedback) -> float | None:
        if event.slot is None:
            return ArmRun._acted_at(self, times, event)  # noqa: SLF001 - see BaseRun on super()
        return times.opened_at(self.ledger.slot - event.slot)

    def _settle_removed(self, removed: Sequence[int]) -> None:
        for slot in self.open_slots.of(set(removed)):
            self.state = self.learner.forget(self.state, self.open_slots.close(slot).record)
        ArmRun._settle_removed(self, removed)  # noqa: SLF001 - see BaseRun on super()


def _forgets_nothing(learner: SlotLearner[Any]) -> bool:
    return type(learner).forget is SlotLearner.forget
