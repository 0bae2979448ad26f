"""What a player is: a learner in many runs at once, each run with its own counts of events and open decisions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from service.learners.base import ArmLearner, FloatArray, IntArray, ProvisionalLearner, Slot, SlotLearner, draw

Mask = NDArray[np.bool_]
EXPLORED = 30
"""Slots for each arm in which epsilon-greedy draws uniformly first."""


class Turn(NamedTuple):
    """What a player is told when a slot opens.

    Parameters
    ----------
    outstanding : open decisions of each run, shape (runs,)
    u, v : uniforms of the draw, shape (runs,)
    eligible : arms that may be drawn, shape (runs, arms); None: all
    """

    outstanding: IntArray
    u: FloatArray
    v: FloatArray
    eligible: Mask | None = None


class Player(ABC):
    """A learner in many runs. Arms are positions among the present ones.

    Parameters
    ----------
    default : the loss of a decision whose window passed; None: nothing is learned of it
    """

    def __init__(self, default: float | None) -> None:
        self.default = default

    @abstractmethod
    def act(self, turn: Turn) -> tuple[FloatArray, IntArray]:
        """Open a slot; return its distributions, shape (runs, arms), and the arms drawn, shape (runs,)."""

    @abstractmethod
    def settle(self, runs: IntArray, arms: IntArray, losses: FloatArray, slots: IntArray) -> None:
        """Learn losses of these runs, each named once; ``slots`` are those of the acts, for learners that ask."""

    def add_arms(self, count: int) -> None:
        """Add arms behind the others."""
        self._change(None, count)

    def remove_arms(self, positions: IntArray) -> None:
        """Remove arms in every run."""
        self._change(positions, 0)

    def _change(self, removed: IntArray | None, added: int) -> None:
        raise NotImplementedError

    def expire(self, runs: IntArray, arms: IntArray, slots: IntArray) -> None:
        """Let decisions end whose window passed without an event: learn the default loss."""
        if self.default is not None:
            self.settle(runs, arms, np.full(len(runs), self.default), slots)


def rounds(runs: IntArray) -> Iterator[IntArray]:
    """Yield indexes of ``runs`` so that each part names a run once, and the order within a run stays."""
    if len(runs) == 1:
        yield np.zeros(1, dtype=np.int64)
        return
    order = np.argsort(runs, kind="stable")
    ordered = runs[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    rank = np.arange(len(runs)) - np.repeat(starts, np.diff(np.r_[starts, len(runs)]))
    for number in range(int(rank.max()) + 1):
        yield order[rank == number]


def uniform_over(shape: tuple[int, int], eligible: Mask | None) -> FloatArray:
    """Return uniform play over the eligible arms, shape (runs, arms)."""
    if eligible is None:
        return np.full(shape, 1 / shape[1])
    shares: FloatArray = eligible / eligible.sum(axis=1, keepdims=True)
    return shares


class Uniform(Player):
    """Uniform play, which learns nothing."""

    def __init__(self, runs: int, arms: int) -> None:
        super().__init__(None)
        self._shape = runs, arms

    def act(self, turn: Turn) -> tuple[FloatArray, IntArray]:
        p = uniform_over(self._shape, turn.eligible)
        return p, draw(p, turn.u)

    def settle(self, runs: IntArray, arms: IntArray, losses: FloatArray, slots: IntArray) -> None:
        """Learn nothing."""

    def _change(self, removed: IntArray | None, added: int) -> None:
        gone = 0 if removed is None else len(removed)
        self._shape = self._shape[0], self._shape[1] - gone + added


class Thompson(Player):
    """Thompson sampling with Beta(1, 1) before the first event; a loss between 0 and 1 counts as a share of one.

    Parameters
    ----------
    provisional : whether the default loss is learned at the act and replaced by what comes within the window
    names : of the worlds, which have equally many runs; the samples of each depend on its name alone
    """

    def __init__(self, runs: int, arms: int, default: float | None, names: list[str], *, provisional: bool) -> None:
        super().__init__(default)
        self._provisional = provisional
        self._counts = np.ones((2, runs, arms))
        self._sources = [np.random.default_rng([7, *map(ord, name)]) for name in names]
        self._all = np.arange(runs)

    def scores(self, turn: Turn) -> FloatArray:  # noqa: ARG002 - others explore by it
        """Return what is greatest for the arm that is shown, shape (runs, arms)."""
        parts = np.split(self._counts, len(self._sources), axis=1)
        return np.concatenate([source.beta(*part) for source, part in zip(self._sources, parts, strict=True)])

    def act(self, turn: Turn) -> tuple[FloatArray, IntArray]:
        scores = self.scores(turn)
        if turn.eligible is not None:
            scores = np.where(turn.eligible, scores, -1.0)
        arms = scores.argmax(axis=1)
        p = np.zeros(scores.shape)
        p[self._all, arms] = 1.0
        if self._provisional and self.default is not None:
            self._learn(self._all, arms, self.default, 1.0)
        return p, arms

    def settle(self, runs: IntArray, arms: IntArray, losses: FloatArray, slots: IntArray) -> None:  # noqa: ARG002 - slots unknown
        if self._provisional and self.default is not None:
            self._learn(runs, arms, self.default, -1.0)
        self._learn(runs, arms, losses, 1.0)

    def expire(self, runs: IntArray, arms: IntArray, slots: IntArray) -> None:
        if not self._provisional:
            super().expire(runs, arms, slots)

    def _learn(self, runs: IntArray, arms: IntArray, losses: Any, weight: float) -> None:
        self._counts[0, runs, arms] += weight * (1 - losses)
        self._counts[1, runs, arms] += weight * losses

    def _change(self, removed: IntArray | None, added: int) -> None:
        kept = self._counts if removed is None else np.delete(self._counts, removed, axis=2)
        self._counts = np.concatenate([kept, np.ones((*kept.shape[:2], added))], axis=2)


class Greedy(Thompson):
    """Epsilon-greedy: in slot t a share min(1, 30 K/t) of draws is uniform, the others show the best mean."""

    _t = 0

    def scores(self, turn: Turn) -> FloatArray:
        self._t += 1
        means: FloatArray = self._counts[0] / self._counts.sum(axis=0)
        explores = turn.v * self._t < EXPLORED * means.shape[1]
        means[explores, draw(uniform_over(means.shape, turn.eligible), turn.u)[explores]] = np.inf
        return means


class ServicePlayer(Player):
    """A learner of the service for each run: the code that sessions use.

    Parameters
    ----------
    learner : of all runs
    runs : number of runs
    default : the loss of a decision whose window passed
    provisional : whether it is charged at the act and corrected by what comes within the window
    """

    def __init__(
        self, learner: ArmLearner[Any], runs: int, default: float | None = None, *, provisional: bool = False
    ) -> None:
        super().__init__(default)
        self._learner, self._states, self._t = learner, [learner.start()] * runs, 0
        self._charged = default if provisional else None
        self._records: dict[tuple[int, int], Any] = {}

    def act(self, turn: Turn) -> tuple[FloatArray, IntArray]:
        self._t += 1
        learner, p, arms = self._learner, list[FloatArray](), list[int]()
        told = zip(turn.outstanding.tolist(), turn.u.tolist(), turn.v.tolist(), strict=True)
        for run, (outstanding, u, v) in enumerate(told):
            eligible = None if turn.eligible is None else np.flatnonzero(turn.eligible[run])
            slot = Slot(self._t, outstanding, u, v, eligible, provisional=self._charged is not None)
            state, arm = learner.draw(learner.open(self._states[run], slot), slot)
            p.append(learner.distribution(state))
            arms.append(arm)
            if isinstance(learner, SlotLearner):
                self._records[run, self._t] = learner.record(state, arm)
            if isinstance(learner, ProvisionalLearner) and self._charged is not None:
                state = learner.charge(state, arm, self._charged)
            self._states[run] = state
        return np.array(p), np.array(arms)

    def settle(self, runs: IntArray, arms: IntArray, losses: FloatArray, slots: IntArray) -> None:
        learner, states = self._learner, self._states
        told = zip(runs.tolist(), arms.tolist(), losses.tolist(), slots.tolist(), strict=True)
        for run, arm, loss, slot in told:
            if isinstance(learner, SlotLearner):
                states[run] = learner.settle(states[run], arm, loss, record=self._records.pop((run, slot)))
            elif isinstance(learner, ProvisionalLearner) and self._charged is not None:
                states[run] = learner.correct(states[run], arm, loss, self._charged)
            else:
                states[run] = learner.settle(states[run], arm, loss)

    def expire(self, runs: IntArray, arms: IntArray, slots: IntArray) -> None:
        if self.default is None:
            for run in runs.tolist():
                self._states[run] = self._learner.expire(self._states[run], 1)
        elif self._charged is None:
            super().expire(runs, arms, slots)

    def add_arms(self, count: int) -> None:
        self._states = [self._learner.add_arms(state, count) for state in self._states]

    def remove_arms(self, positions: IntArray) -> None:
        self._states = [self._learner.remove_arms(state, positions) for state in self._states]
