"""The service's own code of a learner in many runs, for worlds in which every run counts the same events."""

from __future__ import annotations

from typing import Any

import numpy as np

from loadtest.study.players.player import Player, Turn
from service.learners.base import ArmLearner, FloatArray, IntArray, Slot, SlotLearner, Spec, many


class ServicePlayer(Player):
    """A learner of the service, stepped by its leading axis.

    Parameters
    ----------
    spec : of the learner
    runs : number of runs; all of them get their events in the same slots
    """

    def __init__(self, spec: Spec, runs: int) -> None:
        super().__init__(None)
        learner = spec.build()
        assert isinstance(learner, ArmLearner)  # noqa: S101 - the study names learners over arms
        self._learner, self._state, self._t = learner, many(learner.start(), runs), 0
        self._runs, self._records = runs, dict[int, tuple[Any, ...]]()

    def act(self, turn: Turn) -> tuple[FloatArray, IntArray]:
        self._t += 1
        slot = Slot(self._t, int(turn.outstanding[0]), turn.u, turn.v)
        self._state, drawn = self._learner.draw(self._learner.open(self._state, slot), slot)
        arms = np.broadcast_to(drawn, (self._runs,))
        if isinstance(self._learner, SlotLearner):
            self._records[self._t] = self._learner.record(self._state, arms)
        return np.broadcast_to(self._learner.distribution(self._state), (self._runs, self._learner.n_arms)), arms

    def settle(self, runs: IntArray, arms: IntArray, losses: FloatArray, slots: IntArray) -> None:  # noqa: ARG002 - all runs
        if isinstance(self._learner, SlotLearner):
            record = self._records.pop(int(slots[0]))
            self._state = self._learner.settle(self._state, arms, losses, record=record)
        else:
            self._state = self._learner.settle(self._state, arms, losses)
