"""The run of a session whose acts and events name segments."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from ..learners.base import FloatArray, IntArray, PooledLearner, Rows, draw
from ..learners.segments import Moment, Segments, Shared
from .actions import ArmAction
from .arm_run import ArmRun
from .feedback import ArmFeedback
from .kept_segment import KeptSegment
from .kept_segments import KeptSegments
from .ledger import Ledger


@dataclass(slots=True)
class SegmentRun(ArmRun):
    """A session over arms in which the learner is the global part of its segments.

    Surplus and outstanding decisions are judged by arm, over all segments. A provisional default is learned at the
    act and corrected when an event comes, as in a ``ProvisionalRun``.
    """

    learner: PooledLearner[Any]
    layer: Segments[Any]
    shared: Shared
    segments: KeptSegments

    def copy(self) -> Self:
        copied = ArmRun.copy(self)
        copied.segments = self.segments.copy()
        return copied

    def moved(self, ledger: Ledger, state: Any) -> Self:
        return replace(ArmRun.moved(self, ledger, state), segments=KeptSegments())

    def on_written(self, rows: Rows) -> None:
        ArmRun.on_written(self, rows)
        self.segments = self.segments.written()

    @property
    def default(self) -> float | None:
        """The loss that every act is charged with, on the learner's scale; None where none is."""
        expiry = self.params.expiry
        return expiry.loss if expiry is not None and expiry.provisional else None

    def current(self, name: str) -> KeptSegment | None:
        """Return a segment with the arms and at the time of this run; None where it is not kept."""
        kept = self.segments.get(name)
        return None if kept is None else self.fitted(kept)

    def fitted(self, kept: KeptSegment) -> KeptSegment:
        """Return a segment with the arms and at the time of this run."""
        return kept.fitted(self.arms).aged(self.params.expiry, self.ledger.time)

    def act(self, eligible: IntArray | None = None, segment: str = "") -> ArmAction:
        """Open the next slot, which is of a segment, and draw its arm.

        A segment that is not kept is begun; where there are too many, the one played least recently is dropped.

        Parameters
        ----------
        eligible : as for ``ArmRun.act``
        segment : its name
        """
        eligible = self._eligible(eligible)
        kept = self.current(segment)
        if kept is None:
            kept = self._begun()
        slot = self._open_slot(self.draws, eligible)
        moment, p = self.layer.open(self.state, self.shared, kept.segment, slot)
        position = draw(p, slot.u)
        arm = self.arms.live[position]
        self.ledger.by_arm[arm] += 1
        if self.act_times is not None:
            self.act_times.act(self.ledger.time, (arm,), self.ledger.by_arm.size)
        if self.default is not None:
            moment = self.layer.charge(moment, position, self.default)
        self._keep(segment, kept.acted(slot.t, self.ledger.time), moment)
        return ArmAction(
            slot.t, arm, float(p[position]), len(self.arms.live) if eligible is None else eligible.size
        )

    def _begun(self) -> KeptSegment:
        kept = self.shared.kept
        if kept >= self.params.max_segments:
            self.segments.drop_least_recent()
        else:
            self.shared = self.shared._replace(kept=kept + 1)
        return KeptSegment.of(self.arms.live).aged(self.params.expiry, self.ledger.time)

    def settle(self, event: ArmFeedback) -> None:
        self._count_settled(event)
        kept, position = self.current(event.segment), self.arms.positions[event.arm]
        if self.default is None:
            moment = self.layer.settle(self._moment(kept), position, event.loss)
        else:
            moment = self.layer.correct(self._moment(kept), position, event.loss, self.default)
        if kept is not None:
            kept = kept.settled(event.loss)
        self._keep(event.segment, kept, moment)

    def void(self, event: ArmFeedback) -> None:
        self.ledger.void_of(event.arm)
        kept, position = self.current(event.segment), self.arms.positions[event.arm]
        if self.default is None:
            moment = self.layer.void(self._moment(kept), position)
        else:
            moment = self.layer.uncharge(self._moment(kept), position, self.default)
        if kept is not None:
            kept = kept._replace(outstanding=max(kept.outstanding - 1, 0))
        self._keep(event.segment, kept, moment)

    def _moment(self, kept: KeptSegment | None) -> Moment[Any]:
        return Moment(self.state, self.shared, None if kept is None else kept.segment)

    def _keep(self, name: str, kept: KeptSegment | None, moment: Moment[Any]) -> None:
        self.state, self.shared = moment.part, moment.shared
        if kept is not None and moment.segment is not None:
            self.segments.put(name, kept._replace(segment=moment.segment))

    def expire(self, arm: int, count: int, loss: float | None) -> None:
        """Give up decisions of an arm, by index; their default was learned when they were charged.

        Segments find out by themselves when they are next used.
        """
        self.ledger.expire_of(arm, count)
        if loss is not None:
            self.ledger.learn(loss, count)
        else:
            self.state = self.learner.give_up(self.state, count)

    def probabilities_of(self, kept: KeptSegment) -> FloatArray:
        """Return the distribution of a segment that readers see, shape (arms there ever were,), by index.

        It is 0 for removed and for paused arms.

        Parameters
        ----------
        kept : the segment as ``current`` returns it
        """
        moment = Moment(self.state, self.shared, kept.segment)
        shown = self.layer.probabilities(moment, kept.segment, self.arms.unpaused, self.params.floor)
        return self.arms.spread(np.asarray(shown))
