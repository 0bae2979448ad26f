"""Worlds: chances of a reward, which arms are there, and when feedback comes, for many runs at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from loadtest.study.players import Mask
from service.learners.base import FloatArray, IntArray

NEVER = 1 << 40
"""The delay of feedback that is lost, in slots."""
PAPER = np.array([1, 2, 1, 0, 3, 0, 2])


@dataclass(frozen=True)
class World:
    """A kind of stream, from which each seed draws its own.

    Parameters
    ----------
    name : for tables
    arms : at the start
    slots : T
    chances : makes ``Chances`` of one seed
    delay : name of a delay and its parameter, see ``delays_of``
    window : slots after which a decision without a click counts as none; None: all losses are reported
    null : whether a decision without an event counts for nothing then, and losses of all kinds are reported
    lost, doubled : shares of events that never come, or come twice
    places : items shown in a slot, all different
    barred : whether most arms are barred in a slot: 30 % of arms are eligible
    changes : slot to (position removed or None, arms added)
    weary : how arms wear out: "most" or "fading", with the slots that count, see ``Weariness``
    visitors : whether slots are visitors of a table: regret is against the best arm of all
    ratings : whether rewards are what ``chances`` says, not drawn
    few : whether it is too slow for all seeds
    """

    name: str
    arms: int
    slots: int
    chances: Callable[[np.random.Generator, int], Chances]
    delay: tuple[str, float]
    window: int | None = None
    lost: float = 0.0
    doubled: float = 0.0
    places: int = 1
    barred: bool = False
    changes: Mapping[int, tuple[int | None, int]] = field(default_factory=dict)
    weary: tuple[str, float] | None = None
    visitors: bool = False
    ratings: bool = False
    few: bool = False
    null: bool = False

    @property
    def clicks(self) -> bool:
        """Whether only clicks are reported."""
        return self.window is not None and not self.null

    @property
    def all_arms(self) -> int:
        """Arms there ever are."""
        return self.arms + sum(added for _, added in self.changes.values())


Chances = Callable[[int], FloatArray]
"""Slot, from 1, to the chance of a reward of 1 for each arm there ever is, shape (all arms,)."""


class Drawn:
    """Worlds drawn for some seeds: everything of them that does not depend on who plays.

    Worlds that differ only in chances, delays, windows and losses on the way are played together, as more runs.

    Parameters
    ----------
    worlds : alike in all that ``kind_of`` returns
    seeds : of each world; a run's stream depends on its own seed and world alone
    """

    def __init__(self, worlds: Sequence[World], seeds: tuple[int, ...]) -> None:
        self.world, self.worlds, self.seeds = worlds[0], worlds, seeds
        self.runs = len(worlds) * len(seeds)
        shape = self.world.slots, self.world.places
        parts = [_one(world, seeds, shape) for world in worlds]
        self._chances = [each for chances, _, _ in parts for each in chances]
        self._barred = [source for _, barred, _ in parts for source in barred]
        arrays = [np.concatenate(pieces, axis=-1) for pieces in zip(*(part[2] for part in parts), strict=True)]
        self.draws, self.second, self.rewards, self.is_lost, self.is_doubled, self.delays = arrays

    def columns(self, world: World) -> slice:
        """Return where the runs of a world are."""
        place = self.worlds.index(world) * len(self.seeds)
        return slice(place, place + len(self.seeds))

    def windows(self) -> list[tuple[int, IntArray]]:
        """Return each window there is, and the runs that have it; none where all losses are reported."""
        of_runs = np.repeat([world.window or 0 for world in self.worlds], len(self.seeds))
        return [(window, np.flatnonzero(of_runs == window)) for window in np.unique(of_runs).tolist() if window]

    def chances(self, t: int) -> FloatArray:
        """Return the chances of slot ``t``, shape (runs, all arms)."""
        return np.array([chances(t) for chances in self._chances])

    def eligible(self, arms: int) -> Mask | None:
        """Draw the eligible arms of the next slot, at least as many as there are places."""
        if not self.world.barred:
            return None
        keys = np.stack([source.random(arms) for source in self._barred])
        least = np.sort(keys, axis=1)[:, self.world.places - 1 : self.world.places]
        eligible: Mask = keys <= np.maximum(least, 0.3)
        return eligible


def kind_of(world: World) -> tuple[Any, ...]:
    """Return what worlds that are played together have in common."""
    alike = (world.arms, world.slots, world.places, world.clicks, world.barred, tuple(world.changes.items()))
    return *alike, world.weary is None, world.visitors


def _one(
    world: World, seeds: tuple[int, ...], shape: tuple[int, int]
) -> tuple[list[Chances], list[np.random.Generator], tuple[Any, ...]]:
    """Return chances, what bars arms, and arrays as ``Drawn`` names them."""
    key = [ord(letter) for letter in world.name]
    sources = [np.random.default_rng([seed, *key]) for seed in seeds]
    chances = [world.chances(source, world.all_arms) for source in sources]
    uniforms = [_stack(sources, shape) for _ in range(3)]
    lost, doubled = _stack(sources, shape) < world.lost, _stack(sources, shape) < world.doubled
    if world.window is not None:
        late = np.stack([delays_of(world, source, shape) for source in sources], axis=-1)
    else:
        # What every run of a world has in common, the service's own code can play for all runs at once.
        late = np.repeat(delays_of(world, sources[0], shape)[..., None], len(seeds), axis=-1)
        lost[:], doubled[:] = lost[..., :1], doubled[..., :1]
    barred = [np.random.default_rng([seed, 1, *key]) for seed in seeds]
    return chances, barred, (*uniforms, lost, doubled, late)


def _stack(sources: list[np.random.Generator], shape: tuple[int, int]) -> FloatArray:
    return np.stack([source.random(shape) for source in sources], axis=-1)


def delays_of(world: World, source: np.random.Generator, shape: tuple[int, int]) -> IntArray:
    """Draw delays in slots, shape (slots, places).

    A world names its delay and gives a parameter: the length of a constant delay or of a burst, the mean of
    exponential ("spread") delays, the median of Pareto ones. A click comes a slot later at the earliest.
    """
    name, size = world.delay
    slots = np.arange(1, shape[0] + 1)[:, None]
    if name == "paper":
        drawn: Any = PAPER[(slots - 1) % len(PAPER)] + np.zeros(shape)
    elif name == "constant":
        drawn = np.full(shape, size)
    elif name == "burst":
        drawn = size - 1 - (slots - 1) % size + np.zeros(shape)
    elif name == "pareto":
        drawn = size * (2 * (1 - source.random(shape))) ** (-1 / 0.8)
    else:
        drawn = source.exponential(size, shape)
    late: IntArray = np.minimum(drawn, NEVER).astype(np.int64)
    # A click after its window still comes: it settles another decision of its arm, or nothing.
    return np.maximum(late, 1) if world.clicks else late


class Weariness:
    """How what was shown lately lowers chances.

    Parameters
    ----------
    kind : "most": the arm most shown in the last slots is worth nothing; "fading": exp(-recent shows/60)
    memory : slots that count as recent
    runs : the runs of this world among all that are played
    arms : number of arms
    """

    def __init__(self, kind: str, memory: float, runs: slice, arms: int) -> None:
        self._kind, self._memory, self._runs = kind, memory, runs
        self._shows = np.zeros((runs.stop - runs.start, arms))
        self._ring: list[IntArray] = []
        self._all = np.arange(len(self._shows))

    def wear(self, chances: FloatArray) -> None:
        """Lower the chances of its runs, in place, to what they are after what was shown."""
        if self._kind == "fading":
            chances[self._runs] *= np.exp(-self._shows / 60)
            return
        most = self._shows.max(axis=1, keepdims=True)
        chances[self._runs] = np.where((self._shows == most) & (most > 0), 0.0, chances[self._runs])

    def show(self, arms: IntArray) -> None:
        """Count the arms shown in a slot, of all runs."""
        shown = arms[self._runs]
        self._shows[self._all, shown] += 1
        self._ring.append(shown)
        if self._kind == "fading":
            self._shows *= 1 - 1 / self._memory
        elif len(self._ring) > self._memory:
            self._shows[self._all, self._ring.pop(0)] -= 1


Maker = Callable[[np.random.Generator, int], Chances]


def _steady(draw: Callable[[np.random.Generator, int], FloatArray]) -> Maker:
    """Draw chances once, which stay."""

    def make(source: np.random.Generator, arms: int) -> Chances:
        rates = draw(source, arms)
        return lambda _: rates

    return make


def gap(best: float, rest: float) -> Maker:
    """One arm has the chance ``best``, all others ``rest``."""
    return _steady(lambda source, arms: source.permutation(np.r_[best, np.full(arms - 1, rest)]).astype(float))


def beta(one: float, other: float) -> Maker:
    """Chances are drawn from Beta(one, other), once."""
    return _steady(lambda source, arms: source.beta(one, other, arms))


def between(low: float, high: float) -> Maker:
    """Chances are evenly spaced, in random order."""
    return _steady(lambda source, arms: source.permutation(np.linspace(low, high, arms)))


def switching(of: Maker, every: int) -> Maker:
    """Let the chances change places every so many slots."""
    return _in_blocks(of, lambda t: (t - 1) // every)


def growing(of: Maker, first: int) -> Maker:
    """Let the chances change places at slots first, 2 first, 4 first, ..."""
    return _in_blocks(of, lambda t: max(0, (t // first).bit_length()))


def _in_blocks(of: Maker, block_of: Callable[[int], int]) -> Maker:
    """Shuffle chances in every block, another arm being best each time."""

    def make(source: np.random.Generator, arms: int) -> Chances:
        rates, seed = of(source, arms)(1), int(source.integers(1 << 32))
        blocks: dict[int, FloatArray] = {0: rates}

        def at(t: int) -> FloatArray:
            block = block_of(t)
            if block not in blocks:
                own, before = np.random.default_rng([seed, block]), blocks.get(block - 1, rates)
                shuffled = own.permutation(rates)
                while arms > 1 and shuffled.argmax() == before.argmax():
                    shuffled = own.permutation(rates)
                blocks[block] = shuffled
            return blocks[block]

        return at

    return make


def bots(of: Maker, every: int, length: int) -> Maker:
    """In the last slots of every so many, all that is shown is clicked."""
    return _later(of, lambda rates, t: rates if t % every < every - length else np.ones(len(rates)))


def novel(of: Maker, first: int, every: int, memory: float) -> Maker:
    """Double the chances of what is new, and less with its age; after the first arms one comes every so often."""

    def at(rates: FloatArray, t: int) -> FloatArray:
        age = t - every * np.maximum(np.arange(len(rates)) - first + 1, 0)
        chances: FloatArray = np.minimum(rates * (1 + np.exp(-np.maximum(age, 0) / memory)), 1.0)
        return chances

    return _later(of, at)


def _later(of: Maker, at: Callable[[FloatArray, int], FloatArray]) -> Maker:
    """Let chances that stay be changed by the slot."""

    def make(source: np.random.Generator, arms: int) -> Chances:
        rates = of(source, arms)(1)
        return lambda t: at(rates, t)

    return make


def drifting(low: float, high: float, period: int) -> Maker:
    """Each chance swings between low and high, with a period of its own near ``period``."""

    def make(source: np.random.Generator, arms: int) -> Chances:
        speed = 2 * np.pi / (period * source.uniform(0.7, 1.4, arms))
        phase = source.uniform(0, 2 * np.pi, arms)
        return lambda t: low + (high - low) * (1 + np.sin(speed * t + phase)) / 2

    return make


def daily(of: Maker, period: int) -> Maker:
    """All chances fall by half at night and rise again, and half of the arms are worth half as much by day."""

    def make(source: np.random.Generator, arms: int) -> Chances:
        rates = of(source, arms)(1)
        night = source.random(arms) < 0.5

        def at(t: int) -> FloatArray:
            light = (1 + np.sin(2 * np.pi * t / period)) / 2
            own = np.where(night, 1 - light, light)
            level: FloatArray = rates * (0.5 + 0.5 * own) * (0.5 + 0.5 * light)
            return level

        return at

    return make


def table(rewards: FloatArray) -> Maker:
    """Each slot has a row of rewards, of a visitor; the order of visitors and of arms is the seed's."""

    def make(source: np.random.Generator, arms: int) -> Chances:
        visitors, columns = source.permutation(len(rewards)), source.permutation(arms)
        return lambda t: rewards[visitors[(t - 1) % len(rewards)]][columns]

    return make
