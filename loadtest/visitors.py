"""What features of visitors are worth: learners that see them, and ours without, where clicks come late.

A score is the share of what an oracle that knows all chances gains over uniform play. Visitors, chances, clicks and
delays of a world and a seed are the same for all learners.
"""

import heapq
import json
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np

from service.learners.base import FloatArray, Slot, Visit
from service.learners.feature_tsallis import RIDGE, FeatureTsallis
from service.learners.features import UNIT
from service.learners.multiscale_tsallis import MultiscaleTsallis

Chances = Callable[[int, FloatArray], FloatArray]
Maker = Callable[[np.random.Generator, int, int], Chances]
"""Of a source, arms and features: from slot and features to the chance of a click of each arm."""


class World(NamedTuple):
    """Visitors with features, what they click on, and when that is known."""

    name: str
    arms: int
    features: int
    make: Maker
    kind: str = "numbers"
    """Of the features: "numbers", "correlated" ones, or "categories", of which a visitor has one."""
    slots: int = 20_000
    window: int = 2_000
    delay: float = 667.0
    """Mean in slots."""
    all_come: bool = False
    """Whether non-clicks are reported too, and so without a default."""


def _rates(source: np.random.Generator, arms: int) -> FloatArray:
    return 0.06 * np.exp(source.normal(0, 0.5, arms))


def linear(
    source: np.random.Generator, arms: int, features: int, *, effect: float = 1.7, alike: bool = False
) -> Chances:
    """Let logarithms of chances be linear in features, with the same weights for all arms if they are ``alike``."""
    weights = source.normal(0, effect / math.sqrt(features), (1 if alike else arms, features))
    rates = _rates(source, arms)
    return lambda _, x: np.minimum(rates * np.exp(weights @ x), 0.9)


def grouped(source: np.random.Generator, arms: int, features: int) -> Chances:
    """Let each arm have another chance for each category."""
    rates = _rates(source, arms)[:, None] * np.exp(source.normal(0, 1.0, (arms, features)))
    return lambda _, x: np.asarray(np.minimum(rates @ x, 0.9))


def split(source: np.random.Generator, arms: int, features: int, *, xor: bool) -> Chances:
    """Let the signs of two features of an arm's own triple its chance: if they differ, or along a tree."""
    rates, pairs = _rates(source, arms), np.array([source.choice(features, 2, replace=False) for _ in range(arms)])

    def at(_: int, x: FloatArray) -> FloatArray:
        first, second = (x[pairs] > 0).T
        return np.asarray(rates * np.where(first != second if xor else first | second, 3.0, 1.0))

    return at


def changing(source: np.random.Generator, arms: int, features: int, *, of: Maker, every: int) -> Chances:
    """Let chances be drawn anew every so many slots."""
    parts = [of(source, arms, features) for _ in range(-(-20_000 // every))]
    return lambda t, x: parts[min((t - 1) // every, len(parts) - 1)](t, x)


def fading(source: np.random.Generator, arms: int, features: int, *, slots: int) -> Chances:
    """Let features mean nothing from the middle on."""
    before, after = linear(source, arms, features), linear(source, arms, features, effect=0.0)
    return lambda t, x: (before if t <= slots // 2 else after)(t, x)


useless = partial(linear, effect=0.0)
WORLDS = (
    World("10 items, features say nothing", 10, 10, useless),
    World("50 items, features say nothing", 50, 10, useless),
    World("10 items, features move all alike", 10, 10, partial(linear, alike=True)),
    World("10 items change places, features say nothing", 10, 10, partial(changing, of=useless, every=5000)),
    World("10 items, every loss comes, features say nothing", 10, 10, useless, all_come=True),
    World("2 items, 6 and 5 %, W 1,000, features say nothing", 2, 10, lambda *_: lambda *_: np.array([0.06, 0.05]),
          window=1_000, delay=333.0),
    World("5 items, 5 numbers", 5, 5, linear),
    World("5 items, 30 numbers", 5, 30, linear),
    World("50 items, 5 numbers", 50, 5, linear),
    World("20 items, 10 correlated numbers", 20, 10, linear, "correlated"),
    World("10 items, six categories", 10, 6, grouped, "categories"),
    World("10 items, sixteen groups", 10, 16, grouped, "categories"),
    World("10 items, trees", 10, 10, partial(split, xor=False)),
    World("10 items, xor", 10, 10, partial(split, xor=True)),
    World("10 items, 5 numbers, drawn anew 4 times", 10, 5, partial(changing, of=linear, every=5000)),
    World("10 items, 5 numbers, delays of 3,000", 10, 5, linear, window=9_000, delay=3_000.0),
    World("10 items, 5 numbers, 29 % too late", 10, 5, linear, delay=1_616.0),
    World("10 items, 5 numbers that lose their meaning", 10, 5, partial(fading, slots=20_000)),
    World("10 items, 5 numbers, every loss comes", 10, 5, linear, all_come=True),
)  # fmt: skip
USELESS = 6
"""So many of them, the first, have features that are useless."""


class Player(Protocol):
    """A learner; ``x`` are columns, the first of them 1."""

    def act(self, t: int, outstanding: int, x: FloatArray, u: float) -> tuple[int, Any]:
        """Return an arm, and what events of the decision bring back."""

    def learn(self, arm: int, x: FloatArray, token: Any, loss: float) -> None:
        """Learn a loss: of a click, of a window that ended (1), or any if every loss comes."""


class Ours:
    """The service's learner, with or without features; every act is charged with 1 if only clicks come."""

    def __init__(self, world: World, seed: int, *, sees: bool = True) -> None:  # noqa: ARG002 - u says what is drawn
        self._sees, self._default = sees, None if world.all_come else 1.0
        self._learner: Any = (
            FeatureTsallis(world.arms, world.features + 1) if sees else MultiscaleTsallis(world.arms)
        )
        self._state = self._learner.start()

    def act(self, t: int, outstanding: int, x: FloatArray, u: float) -> tuple[int, Any]:
        slot = Slot(t, outstanding, u, provisional=self._default is not None, x=x if self._sees else None)
        self._state, arm = self._learner.draw(self._learner.open(self._state, slot), slot)
        token = Visit(x, self._learner.ratios(self._state, arm)) if self._sees else None
        if self._default is not None:
            self._state = (
                self._learner.heard(self._state, arm, token, self._default)
                if self._sees
                else self._learner.settle(self._state, arm, self._default)
            )
        return arm, token

    def learn(self, arm: int, x: FloatArray, token: Any, loss: float) -> None:  # noqa: ARG002
        if self._default is not None and loss == self._default:
            return
        if self._sees:
            self._state = self._learner.heard(self._state, arm, token, loss, self._default)
        elif self._default is None:
            self._state = self._learner.settle(self._state, arm, loss)
        else:
            self._state = self._learner.correct(self._state, arm, loss, self._default)


class Ridge:
    """LinTS or SquareCB on a ridge regression for each arm, told of a non-click at once, or at the window's end."""

    def __init__(self, world: World, seed: int, *, greedy: bool, waits: bool = False) -> None:
        self._chance, self._greedy, self._waits = np.random.default_rng([seed, 7]), greedy, waits or world.all_come
        d = world.features + 1
        self._inverse, self._sums = np.tile(np.eye(d) / RIDGE, (world.arms, 1, 1)), np.zeros((world.arms, d))

    def act(self, t: int, outstanding: int, x: FloatArray, u: float) -> tuple[int, Any]:  # noqa: ARG002
        means = np.einsum("kij,kj->ki", self._inverse, self._sums) @ x
        if not self._greedy:
            spread = np.sqrt(np.einsum("i,kij,j->k", x, self._inverse, x))
            arm = int((means - 0.3 * spread * self._chance.normal(size=len(means))).argmin())
        else:
            p = 1 / (len(means) + 4 * math.sqrt(t * len(means)) * (means - means.min()))
            p[means.argmin()] += 1 - p.sum()
            arm = min(int(np.searchsorted(np.cumsum(p), u, side="right")), len(p) - 1)
        if not self._waits:
            self._played(arm, x, 1.0)
        return arm, None

    def _played(self, arm: int, x: FloatArray, loss: float) -> None:
        turned = self._inverse[arm] @ x
        self._inverse[arm] -= np.outer(turned, turned) / (1 + turned @ x)
        self._sums[arm] += loss * x

    def learn(self, arm: int, x: FloatArray, token: Any, loss: float) -> None:  # noqa: ARG002
        if self._waits:
            self._played(arm, x, loss)
        elif loss != 1:
            self._sums[arm] += (loss - 1) * x


class Vowpal:
    """``--cb_explore --squarecb`` of Vowpal Wabbit (extra ``peers``), told of a non-click at once, or later."""

    def __init__(self, world: World, seed: int, *, waits: bool) -> None:
        from vowpalwabbit import Workspace  # an extra

        self._waits = waits or world.all_come
        self._model = Workspace(f"--cb_explore {world.arms} --squarecb --quiet --random_seed {seed}")

    def act(self, t: int, outstanding: int, x: FloatArray, u: float) -> tuple[int, Any]:  # noqa: ARG002
        text = "| " + " ".join(f"{place}:{value:.5g}" for place, value in enumerate(x[1:].tolist()) if value)
        p = np.array(self._model.predict(text))
        arm = min(int(np.searchsorted(np.cumsum(p), u * p.sum(), side="right")), len(p) - 1)
        if not self._waits:
            self._model.learn(f"{arm + 1}:1:{p[arm]} {text}")
        return arm, (text, float(p[arm]))

    def learn(self, arm: int, x: FloatArray, token: Any, loss: float) -> None:  # noqa: ARG002
        if self._waits or loss != 1:
            self._model.learn(f"{arm + 1}:{loss}:{token[1]} {token[0]}")


PLAYERS: Mapping[str, Callable[[World, int], Player]] = {
    "ours": Ours,
    "without features": partial(Ours, sees=False),
    "SquareCB": partial(Ridge, greedy=True),
    "LinTS": partial(Ridge, greedy=False),
    "LinTS, window": partial(Ridge, greedy=False, waits=True),
    "VW": partial(Vowpal, waits=False),
    "VW, window": partial(Vowpal, waits=True),
}


def _visitor(source: np.random.Generator, world: World, mixing: FloatArray) -> FloatArray:
    if world.kind == "categories":
        return np.asarray(np.eye(world.features)[source.integers(world.features)])
    x = source.uniform(-1, 1, world.features)
    x = np.tanh(mixing @ x[:3]) if world.kind == "correlated" else x
    return np.asarray(np.rint(x * UNIT) / UNIT)


def score(job: tuple[World, str, int]) -> float:
    """Play one learner in a world of a seed, and return its share of the oracle's gain."""
    world, name, seed = job
    source = np.random.default_rng([seed, *map(ord, world.name)])
    chances, mixing = world.make(source, world.arms, world.features), source.normal(size=(world.features, 3))
    player, events, outstanding, gains = PLAYERS[name](world, seed), list[Any](), 0, np.zeros(3)
    for t in range(1, world.slots + 1):
        while events and events[0][0] < t:
            _, _, arm, x, token, loss = heapq.heappop(events)
            outstanding -= 1
            player.learn(arm, x, token, loss)
        x = np.r_[1.0, _visitor(source, world, mixing)]
        u, clicked, late = source.random(), source.random(), int(source.exponential(world.delay))
        p = chances(t, x[1:])
        arm, token = player.act(t, outstanding, x, u)
        outstanding += 1
        gains += p[arm], p.mean(), p.max()
        is_click = bool(clicked < p[arm])
        if world.all_come or (is_click and late < world.window):
            heapq.heappush(events, (t + late, t, arm, x, token, float(not is_click)))
        else:
            heapq.heappush(events, (t + world.window, t, arm, x, token, 1.0))
    return float((gains[0] - gains[1]) / (gains[2] - gains[1]))


# -- Results by world, learner and seed; the table of them.

MARKS = ("<!-- visitors: what follows is written by the command -->", "<!-- visitors: end -->")


def key_of(job: tuple[World, str, int]) -> str:
    """Return the name of a run in the file of results."""
    return json.dumps([job[0].name, *job[1:]])


def _mean(scores: Sequence[float]) -> str:
    if len(scores) < 2:
        return ""
    return f"{np.mean(scores):.2f} ± {np.std(scores, ddof=1) / math.sqrt(len(scores)):.2f}"


def table(results: Mapping[str, float]) -> list[Sequence[str]]:
    """Return head and rows: scores by world and learner, and ours less that without features, of the same seeds.

    The last row has the mean of ours less each other, over the runs of all worlds in which features may matter.
    """
    rows: list[Sequence[str]] = [("world", "seeds", "what features add", *PLAYERS)]
    gaps: dict[str, list[float]] = {name: [] for name in PLAYERS}
    for number, world in enumerate(WORLDS):
        seeds = range(1, 1 + max((json.loads(key)[2] for key in results), default=0))
        found = {
            name: {seed: results[key] for seed in seeds if (key := key_of((world, name, seed))) in results}
            for name in PLAYERS
        }
        ours, blind = found["ours"], found["without features"]
        if added := [ours[seed] - blind[seed] for seed in ours.keys() & blind.keys()]:
            cells = [_mean(list(each.values())) for each in found.values()]
            rows.append((world.name, str(len(added)), _mean(added), *cells))
        for name, each in found.items() if number >= USELESS else ():
            gaps[name] += [ours[seed] - each[seed] for seed in ours.keys() & each.keys()]
    if any(gaps.values()):
        last = ("", *(_mean(gaps[name]) for name in PLAYERS if name != "ours"))
        rows.append(("*ours* less each, where features may matter", str(len(gaps["ours"])), "", *last))
    return rows
