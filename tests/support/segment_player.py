"""Segments with their global part, stepped as a session would."""

from typing import Any

import numpy as np

from service.learners.base import FloatArray, PooledLearner, Slot
from service.learners.segments import Moment, Segments, start_segment, start_shared


class Player:
    """Segments with their global part, and no more of either kept than the rule keeps."""

    def __init__(self, part: PooledLearner[Any], default: float | None = None) -> None:
        self.layer, self.n_arms, self.default = Segments(part), part.n_arms, default
        self.part, self.shared = part.start(), start_shared()
        self.segments: dict[str, Any] = {}
        self.t = self.outstanding = 0

    def moment(self, name: str) -> Moment[Any]:
        return Moment(self.part, self.shared, self.segments.get(name))

    def keep(self, name: str, moment: Moment[Any]) -> None:
        self.part, self.shared = moment.part, moment.shared
        if moment.segment is not None:
            self.segments[name] = moment.segment

    def open(self, name: str, eligible: list[int] | None = None, floor: float = 0.0) -> FloatArray:
        self.t += 1
        places = None if eligible is None else np.array(eligible)
        slot = Slot(self.t, self.outstanding, 0.0, 0.0, places, floor, self.default is not None)
        segment = self.segments.get(name) or start_segment(self.n_arms)
        moment, p = self.layer.open(self.part, self.shared, segment, slot)
        self.keep(name, moment)
        self.outstanding += 1
        return p

    def charge(self, name: str, arm: int) -> None:
        self.keep(name, self.layer.settle(self.moment(name), arm, self.default or 0.0, ends=0))

    def settle(self, name: str, arm: int, loss: float) -> None:
        self.outstanding = max(self.outstanding - 1, 0)
        if self.default is None:
            self.keep(name, self.layer.settle(self.moment(name), arm, loss))
        else:
            self.keep(name, self.layer.correct(self.moment(name), arm, loss, self.default))

    def void(self, name: str, arm: int) -> None:
        self.outstanding = max(self.outstanding - 1, 0)
        if self.default is None:
            self.keep(name, self.layer.void(self.moment(name), arm))
        else:
            self.keep(name, self.layer.uncharge(self.moment(name), arm, self.default))
