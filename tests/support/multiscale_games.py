"""Random slots with random feedback, and multiscale_tsallis going through them."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from service.learners.base import Slot
from service.learners.multiscale_state import State
from service.learners.multiscale_tsallis import MultiscaleTsallis
from tests.support import vectors


def applied(learner: MultiscaleTsallis, state: State, op: dict[str, Any], default: float | None) -> State:
    """The state after an operation other than open, as the traces name it."""
    match op["op"]:
        case "event":
            return learner.settle(state, op["arm"], op["loss"], op["count"])
        case "charge":
            return learner.charge(state, op["arm"], default)
        case "correct":
            return learner.correct(state, op["arm"], op["loss"], default)
        case "void" if default is not None:
            return learner.uncharge(state, op["arm"], default)
        case "add_arms":
            return learner.add_arms(state, op["count"])
        case "remove_arms":
            return learner.remove_arms(state, np.array(op["positions"]))
        case name:
            assert name in {"void", "expire"}
            return learner.give_up(state, op.get("count", 1)) if default is None else state


class Game(NamedTuple):
    """Slots with random feedback, in which anything may happen that a session allows."""

    n_arms: int
    default: float | None
    seed: int
    slots: int


def operations(game: Game) -> Any:
    """Yields ("open", outstanding, eligible, floor) and is sent the arm, or another operation and its arguments."""
    rng, waiting, k = np.random.default_rng(game.seed), [], game.n_arms
    losses = rng.random(16)
    for _ in range(game.slots):
        eligible = (
            sorted(rng.choice(k, rng.integers(1, k + 1), replace=False).tolist()) if rng.random() < 0.4 else None
        )
        arm = yield "open", len(waiting) + 20_000 * (rng.random() < 0.02), eligible, 0.2 * (rng.random() < 0.3)
        waiting.append(arm)
        if game.default is not None:
            yield "charge", arm
        while waiting and rng.random() < 0.45:
            arm, loss = waiting.pop(rng.integers(len(waiting))), float(losses[arm] < rng.random())
            if rng.random() < 0.1:
                yield "void", arm
            elif game.default is None:
                yield "event", arm, loss, int(rng.integers(1, 4))
            else:
                yield "correct", arm, loss
        if rng.random() < 0.03 and k < 12:
            k += 2
            yield "add_arms", 2
        elif rng.random() < 0.03 and k > 3:
            gone, k = sorted(rng.choice(k, 2, replace=False).tolist()), k - 2
            waiting = [arm - sum(each < arm for each in gone) for arm in waiting if arm not in gone]
            yield "remove_arms", gone


class Course:
    """A game that a learner goes through; ``state`` is where it is."""

    def __init__(self, learner: MultiscaleTsallis, game: Game, rng: np.random.Generator) -> None:
        self.state = learner.start()
        self._learner, self._game, self._rng, self._slots = learner, game, rng, 0

    def steps(self) -> Iterator[tuple[str, list[Any]]]:
        """Yield each operation with its arguments, once the learner has done it."""
        ahead, arm = operations(self._game), None
        while True:
            try:
                name, *args = ahead.send(arm)
            except StopIteration:
                return
            if name == "open":
                arm = self._open(*args)
            else:
                self._apply(name, *args)
            yield name, args

    def _open(self, outstanding: int, eligible: list[int] | None, floor: float) -> int:
        self._slots += 1
        provisional = self._game.default is not None
        where, u = vectors.positions(eligible), self._rng.random()
        slot = Slot(self._slots, outstanding, u, 0.0, where, floor, provisional)
        self.state, arm = self._learner.draw(self._learner.open(self.state, slot), slot)
        return int(arm)

    def _apply(self, name: str, first: Any, loss: float | None = None, count: int | None = None) -> None:
        many = first if count is None else count
        op = {"op": name, "arm": first, "positions": first, "loss": loss, "count": many}
        self.state = applied(self._learner, self.state, op, self._game.default)
