"""The run of a learner over arms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from ..learners.base import ArmLearner, FloatArray, IntArray, draw_all
from .act_times import ActTimes
from .actions import ArmAction, ArmActions
from .arms import Arms, Change
from .base_run import BaseRun
from .feedback import ArmFeedback
from .ledger import ArmLedger
from .surplus import SurplusChecker, check_by_arm


@dataclass(slots=True)
class ArmRun(BaseRun):
    """A session over arms, in which feedback names an arm and no slot.

    Learners know arms by position among the live ones; everybody else knows them by index.
    """

    learner: ArmLearner[Any]
    ledger: ArmLedger
    arms: Arms

    def with_arms(self, arms: Arms) -> Self:
        """Return the run of the same session with the arms it had at the moment of its state."""
        return self if arms is self.arms else replace(self, arms=arms)

    def act(self, eligible: IntArray | None = None) -> ArmAction:
        """Open the next slot and draw its arm; ``can_draw`` must be true of the same eligible arms.

        Parameters
        ----------
        eligible : positions of the arms that may be drawn, ascending, none of them paused; None: all but the
            paused ones. Only where the learner ``takes_eligible``.
        """
        eligible = self._eligible(eligible)
        slot = self._open_slot(self.draws, eligible)
        self.state, position = self.learner.draw(self.learner.open(self.state, slot), slot)
        arm = self.arms.live[position]
        self.ledger.by_arm[arm] += 1
        if self.act_times is not None:
            self.act_times.act(self.ledger.time, (arm,), self.ledger.by_arm.size)
        probability = float(self.learner.distribution(self.state)[position])
        return ArmAction(slot.t, arm, probability, len(self.arms.live) if eligible is None else eligible.size)

    def act_all(self, count: int, eligible: IntArray | None = None) -> ArmActions:
        """Open slots in a row as ``act`` does one by one: those of the next ``count`` that can be drawn at once.

        These are one or more. Not for runs whose acts do something besides.

        Parameters
        ----------
        count : two or more
        eligible : as for ``act``
        """
        eligible = self._eligible(eligible)
        slot = self._open_slot(self.draws, eligible)
        self.state, opened = self.learner.open_all(self.state, slot, count)
        if opened == 1:
            self.state, position = self.learner.draw(self.state, slot)
            positions = [position]
        else:
            self.ledger.open(opened - 1)
            uniforms = self.draws.uniforms(slot.t, opened)
            positions = draw_all(self.learner.distribution(self.state), uniforms).tolist()
        live = self.arms.live
        arms = positions if isinstance(live, range) else [live[position] for position in positions]
        np.add.at(self.ledger.by_arm, arms, 1)
        if self.act_times is not None:
            self.act_times.act(self.ledger.time, arms, self.ledger.by_arm.size)
        probabilities = self.learner.distribution(self.state)[positions].tolist()
        n_eligible = len(self.arms.live) if eligible is None else eligible.size
        return ArmActions(slot.t, arms, probabilities, n_eligible)

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

    def settle(self, event: ArmFeedback) -> None:
        self._count_settled(event)
        self.state = self.learner.settle(self.state, self.arms.positions[event.arm], event.loss)

    def settle_all(self, arms: Sequence[int], losses: Sequence[float]) -> None:
        """Settle events that are not surplus, as ``settle`` does one after the other.

        Parameters
        ----------
        arms : of each event, by index, none of them removed
        losses : of each event, on the learner's scale
        """
        self.ledger.settle_all(arms, losses)
        positions = self.arms.positions
        self.state = self.learner.settle_all(self.state, [positions[arm] for arm in arms], losses)

    def delays(self, arms: Sequence[int]) -> Sequence[float]:
        """Return ``delay`` of events of these arms, settled in this order.

        Parameters
        ----------
        arms : index of each event's arm; none of the events is surplus

        Returns
        -------
        seconds, in the order of the events; without expiry none, and none for an act that is older than all buckets
        """
        if self.act_times is None:
            return ()
        left, found = dict[int, int](), []
        for arm in arms:
            outstanding = left[arm] if arm in left else int(self.ledger.by_arm[arm])
            left[arm] = outstanding - 1
            if (acted_at := self.act_times.acted_at(arm, outstanding)) is not None:
                found.append(max(0.0, self.ledger.time - acted_at))
        return found

    def void(self, event: ArmFeedback) -> None:
        self.ledger.void_of(event.arm)
        self.state = self.learner.void(self.state, self.arms.positions[event.arm])

    def expire(self, arm: int, count: int, loss: float | None) -> None:
        """Give up ``count`` outstanding decisions of an arm, and learn ``loss`` of them in one step.

        Parameters
        ----------
        arm : its index
        count : one or more
        loss : on the learner's scale; None: nothing is learned
        """
        self.ledger.expire_of(arm, count)
        if loss is None:
            self.state = self.learner.give_up(self.state, count)
        else:
            self.ledger.learn(loss, count)
            self.state = self.learner.settle(self.state, self.arms.positions[arm], loss, count)

    def _count_settled(self, event: ArmFeedback) -> None:
        self.ledger.settle_of(event.arm)
        self.ledger.learn(event.loss)

    def surplus_checker(self) -> SurplusChecker:
        return check_by_arm(self.ledger.by_arm)

    def is_removed(self, event: ArmFeedback) -> bool:
        return not self.arms.is_live(event.arm)

    def _acted_at(self, times: ActTimes, event: ArmFeedback) -> float | None:
        return times.acted_at(event.arm, int(self.ledger.by_arm[event.arm]))

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
            self._settle_removed(change.removed)
            positions = np.array([before.positions[arm] for arm in change.removed])
            self.state = self.learner.remove_arms(self.state, positions)
        if not adds_first:
            self._add(len(change.added))

    def _add(self, count: int) -> None:
        if count:
            self.ledger.add_arms(count)
            self.state = self.learner.add_arms(self.state, count)

    def _settle_removed(self, removed: Sequence[int]) -> None:
        self.state = self.learner.give_up(self.state, self.ledger.remove(removed))

    @property
    def probabilities(self) -> FloatArray:
        """The distribution shown to readers, shape (arms there ever were,), by index.

        It is 0 for removed and for paused arms.
        """
        shown = self.learner.probabilities(self.state, self.arms.unpaused, self.params.floor)
        return self.arms.spread(np.asarray(shown))
