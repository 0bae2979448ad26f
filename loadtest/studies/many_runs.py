"""Many runs of one learner at once, one per seed: the learner's code computes all of them on a leading axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from loadtest.replay.arm_worlds import ArmWorld
from loadtest.replay.point_worlds import PointWorld
from service.learners.base import ArmLearner, FloatArray, IntArray, PointLearner, Slot, SlotLearner, Spec, many


class _Runs(Protocol):
    """Runs of one learner in one world."""

    def open(self, t: int, outstanding: int) -> tuple[FloatArray, Any]:
        """Play slot t; return the expected losses, shape (runs,), and the event that ``settle`` gets later."""

    def settle(self, event: Any, outstanding: int) -> None:
        """Learn from the feedback of one slot."""


def expected_losses(
    world: ArmWorld | PointWorld,
    spec: Spec,
    delays: IntArray,
    seeds: Sequence[int],
) -> FloatArray:
    """Play the world once per seed and return the expected losses, p_t . l_t or f_t(x_t), shape (slots, runs).

    Column i has exactly the numbers of a session with ``seeds[i]``.

    Parameters
    ----------
    delays : of each slot's feedback, in slots, shape (slots,); 0 arrives at the end of the slot
    """
    runs: _Runs = _runs(world, spec, seeds)
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


def _runs(world: ArmWorld | PointWorld, spec: Spec, seeds: Sequence[int]) -> _Runs:
    learner = spec.build()
    if isinstance(world, ArmWorld):
        assert isinstance(learner, ArmLearner)  # noqa: S101 - a plan pairs worlds with learners
        return _ArmRuns(world, learner, seeds)
    assert isinstance(learner, PointLearner)  # noqa: S101 - a plan pairs worlds with learners
    return _PointRuns(world, learner, seeds)


class _ArmEvent(NamedTuple):
    arm: IntArray
    loss: FloatArray
    record: tuple[Any, ...] | None


class _ArmRuns:
    def __init__(self, world: ArmWorld, learner: ArmLearner[Any], seeds: Sequence[int]) -> None:
        self._losses = world.losses
        self._learner = learner
        self._state = many(learner.start(), len(seeds))
        self._index = np.arange(len(seeds))
        self._u = uniforms(seeds, world.slots, 0)
        self._v = uniforms(seeds, world.slots, 1) if learner.second_stream else np.zeros((world.slots, 1))

    def open(self, t: int, outstanding: int) -> tuple[FloatArray, _ArmEvent]:
        learner, losses = self._learner, self._losses[t - 1]
        slot = Slot(t, outstanding, self._u[t - 1], self._v[t - 1])
        self._state, drawn = learner.draw(learner.open(self._state, slot), slot)
        arm = np.broadcast_to(drawn, self._index.shape)
        record = learner.record(self._state, arm) if isinstance(learner, SlotLearner) else None
        expected = (learner.distribution(self._state) * losses).sum(axis=-1)
        return expected, _ArmEvent(arm, losses[arm], record)

    def settle(self, event: _ArmEvent, outstanding: int) -> None:  # noqa: ARG002 - learners over arms don't ask
        learner = self._learner
        if isinstance(learner, SlotLearner):
            assert event.record is not None  # noqa: S101 - such learners leave a record in every slot
            self._state = learner.settle(self._state, event.arm, event.loss, record=event.record)
        else:
            self._state = learner.settle(self._state, event.arm, event.loss)


class _PointRuns:
    def __init__(self, world: PointWorld, learner: PointLearner[Any], seeds: Sequence[int]) -> None:
        self._world = world
        self._learner = learner
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
