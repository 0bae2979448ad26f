"""Many runs of one learner at once, one per seed: the learner's code computes all of them on a leading axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from loadtest.replay.worlds import ArmWorld, PointWorld
from service.learners.base import ArmLearner, FloatArray, IntArray, PointLearner, Slot, SlotLearner, Spec, many


def expected_losses(world: ArmWorld | PointWorld, spec: Spec, delays: IntArray, seeds: Sequence[int]) -> FloatArray:
    """Play the world once per seed and return the expected losses, p_t . l_t or f_t(x_t), shape (slots, runs).

    Column i has exactly the numbers of a session with ``seeds[i]``.

    Parameters
    ----------
    delays : of each slot's feedback, in slots, shape (slots,); 0 arrives at the end of the slot
    """
    learner = spec.build()
    if isinstance(world, ArmWorld):
        assert isinstance(learner, ArmLearner)  # noqa: S101 - a plan pairs worlds with learners
        runs: _ArmRuns | _PointRuns = _ArmRuns(world, learner, seeds)
    else:
        assert isinstance(learner, PointLearner)  # noqa: S101 - a plan pairs worlds with learners
        runs = _PointRuns(world, learner, seeds)
    expected = np.empty((world.slots, len(seeds)))
    due: dict[int, list[Any]] = {}
    outstanding = 0
    for t in range(1, world.slots + 1):
        expected[t - 1], event = runs.open(t, outstanding)
        outstanding += 1
        due.setdefault(t + int(delays[t - 1]), []).append(event)
        for arrived in due.pop(t, ()):
            outstanding -= 1
            runs.settle(arrived, outstanding)
    return expected


def uniforms(seeds: Sequence[int], slots: int, stream: int) -> FloatArray:
    """Return u_t (stream 0) or v_t (stream 1) of sessions with these seeds, shape (slots, runs)."""
    streams = (np.random.Philox(key=seed, counter=[0, 0, 0, stream]) for seed in seeds)
    return np.stack([np.random.Generator(bits).random(slots) for bits in streams], axis=1)


class _ArmRuns:
    """Runs in a world of arms: ``open`` returns expected losses, shape (runs,), and the event for ``settle``."""

    def __init__(self, world: ArmWorld, learner: ArmLearner[Any], seeds: Sequence[int]) -> None:
        self._losses, self._learner = world.losses, learner
        self._state = many(learner.start(), len(seeds))
        self._index = np.arange(len(seeds))
        self._u = uniforms(seeds, world.slots, 0)
        self._v = uniforms(seeds, world.slots, 1) if learner.second_stream else np.zeros((world.slots, 1))

    def open(self, t: int, outstanding: int) -> tuple[FloatArray, Any]:
        learner, losses = self._learner, self._losses[t - 1]
        slot = Slot(t, outstanding, self._u[t - 1], self._v[t - 1])
        self._state, drawn = learner.draw(learner.open(self._state, slot), slot)
        arm = np.broadcast_to(drawn, self._index.shape)
        record = learner.record(self._state, arm) if isinstance(learner, SlotLearner) else None
        expected = (learner.distribution(self._state) * losses).sum(axis=-1)
        return expected, (arm, losses[arm], record)

    def settle(self, event: Any, outstanding: int) -> None:  # noqa: ARG002 - learners over arms don't ask
        arm, loss, record = event
        if isinstance(self._learner, SlotLearner):
            self._state = self._learner.settle(self._state, arm, loss, record=record)
        else:
            self._state = self._learner.settle(self._state, arm, loss)


class _PointRuns:
    """The same in a world of points."""

    def __init__(self, world: PointWorld, learner: PointLearner[Any], seeds: Sequence[int]) -> None:
        self._world, self._learner = world, learner
        self._state = many(learner.start(), len(seeds))
        self._v = uniforms(seeds, world.slots, 1) if learner.second_stream else np.zeros((world.slots, 1))

    def open(self, t: int, outstanding: int) -> tuple[FloatArray, FloatArray]:
        self._state = self._learner.open(self._state, Slot(t, outstanding, 0.0, self._v[t - 1]))
        x, query_points = self._learner.x(self._state), self._learner.query_points(self._state)
        if query_points is None:
            return self._world.loss(t, x), self._world.gradient(t, x)
        values = self._world.loss(t, np.concatenate([x[..., None, :], query_points], axis=-2))
        return values[..., 0], values

    def settle(self, event: FloatArray, outstanding: int) -> None:
        self._state = self._learner.settle(self._state, event, outstanding)
