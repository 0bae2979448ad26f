"""How chances of arms move in the worlds of the study; each seed draws rates, and an order of its arms."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from loadtest.study.worlds import Chances
from service.learners.base import FloatArray

Maker = Callable[[np.random.Generator, int], Chances]


def gap(best: float, rest: float) -> Maker:
    """One arm has the chance ``best``, all others ``rest``."""

    def make(source: np.random.Generator, arms: int) -> Chances:
        rates: FloatArray = source.permutation(np.r_[best, np.full(arms - 1, rest)]).astype(float)
        return lambda _: rates

    return make


def beta(one: float, other: float) -> Maker:
    """Chances are drawn from Beta(one, other), once."""

    def make(source: np.random.Generator, arms: int) -> Chances:
        rates = source.beta(one, other, arms)
        return lambda _: rates

    return make


def between(low: float, high: float) -> Maker:
    """Chances are evenly spaced, in random order."""

    def make(source: np.random.Generator, arms: int) -> Chances:
        rates = source.permutation(np.linspace(low, high, arms))
        return lambda _: rates

    return make


def switching(of: Maker, every: int) -> Maker:
    """Let the chances change places every so many slots."""

    def make(source: np.random.Generator, arms: int) -> Chances:
        rates, seed = of(source, arms)(1), int(source.integers(1 << 32))
        return _in_blocks(rates, seed, lambda t: (t - 1) // every)

    return make


def growing(of: Maker, first: int) -> Maker:
    """Let the chances change places at slots first, 2 first, 4 first, ..."""

    def make(source: np.random.Generator, arms: int) -> Chances:
        rates, seed = of(source, arms)(1), int(source.integers(1 << 32))
        return _in_blocks(rates, seed, lambda t: max(0, (t // first).bit_length()))

    return make


def _in_blocks(rates: FloatArray, seed: int, block_of: Callable[[int], int]) -> Chances:
    """Return chances that are shuffled in every block, another arm being best each time."""
    blocks: dict[int, FloatArray] = {0: rates}

    def at(t: int) -> FloatArray:
        block = block_of(t)
        if block not in blocks:
            source = np.random.default_rng([seed, block])
            before = at_block(block - 1)
            shuffled = source.permutation(rates)
            while len(rates) > 1 and shuffled.argmax() == before.argmax():
                shuffled = source.permutation(rates)
            blocks[block] = shuffled
        return blocks[block]

    def at_block(block: int) -> FloatArray:
        return blocks.get(block, rates)

    return at


def drifting(low: float, high: float, period: int) -> Maker:
    """Each chance swings between low and high, with a period of its own near ``period``."""

    def make(source: np.random.Generator, arms: int) -> Chances:
        speed = 2 * np.pi / (period * source.uniform(0.7, 1.4, arms))
        phase = source.uniform(0, 2 * np.pi, arms)
        return lambda t: low + (high - low) * (1 + np.sin(speed * t + phase)) / 2

    return make


def day_and_night(of: Maker, period: int) -> Maker:
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
