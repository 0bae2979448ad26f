"""Means by arm, and the values of policies that did not act, with intervals."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .outcomes import Outcomes

MIN_EFFECTIVE = 50.0
"""Effective sample size below which an interval would promise more than it holds."""

Floats = NDArray[np.float64]


class Interval(NamedTuple):
    """An estimate with its interval."""

    value: float
    low: float
    high: float


class Estimate(NamedTuple):
    """What is known of an arm's mean, or of a policy's value."""

    name: str
    acts: int
    """Acts that it rests on: those to which the policy gives a weight."""
    effective: float
    """Effective sample size: as many acts of the policy's own would tell as much."""
    ips: Interval | None
    """Inverse propensity score; for an arm's mean, the mean. None where there is not enough data."""
    snips: Interval | None = None
    """Self-normalised; None for an arm's mean, and where there is not enough data."""


def arm_means(outcomes: Outcomes, confidence: float) -> Iterator[Estimate]:
    """Yield the mean of each arm over its acts, in the order of the arms.

    Parameters
    ----------
    outcomes : what was logged of settled decisions
    confidence : of the intervals, in (0, 1); they are Wilson's (1927) where there are two values, else normal
    """
    for arm in np.unique(outcomes.arms):
        values = outcomes.values[outcomes.arms == arm]
        enough = values.size >= MIN_EFFECTIVE
        interval = _mean(values, np.unique(outcomes.values), confidence) if enough else None
        yield Estimate(_name(outcomes, int(arm)), values.size, float(values.size), interval)


def policies(outcomes: Outcomes, confidence: float) -> Iterator[Estimate]:
    """Yield the value of uniform play, and of each arm played whenever it could be.

    Parameters
    ----------
    outcomes : what was logged of settled decisions, with the probabilities of what was drawn
    confidence : of the intervals, in (0, 1); they are normal, and hold as the number of acts grows

    Notes
    -----
    IPS weighs each act by the policy's probability of it over that of the log (Horvitz and Thompson 1952); SNIPS
    divides by the sum of weights (Swaminathan and Joachims 2015), the effective sample size is Kish's (1965).
    """
    uniform = 1 / (outcomes.eligible * outcomes.probabilities)
    yield _value("uniform", uniform, outcomes.values, confidence)
    for arm in np.unique(outcomes.arms):
        weights = (outcomes.arms == arm) / outcomes.probabilities
        yield _value(_name(outcomes, int(arm)), weights, outcomes.values, confidence)


def _name(outcomes: Outcomes, arm: int) -> str:
    return outcomes.labels.get(arm, f"arm {arm}")


def _mean(values: Floats, kinds: Floats, confidence: float) -> Interval:
    if kinds.size <= 2:
        low, high = float(kinds[0]), float(kinds[-1])
        share = _wilson(int(np.count_nonzero(values == high)), values.size, confidence)
        return Interval(*(low + (high - low) * each for each in share)) if high > low else Interval(low, low, low)
    return _normal(float(values.mean()), float(values.std(ddof=1) / np.sqrt(values.size)), confidence)


def _wilson(successes: int, count: int, confidence: float) -> Interval:
    z, p = _z(confidence), successes / count
    centre = (p + z * z / (2 * count)) / (1 + z * z / count)
    half = z / (1 + z * z / count) * np.sqrt(p * (1 - p) / count + z * z / (4 * count * count))
    return Interval(p, float(centre - half), float(centre + half))


def _value(name: str, weights: Floats, values: Floats, confidence: float) -> Estimate:
    acts, total = int(np.count_nonzero(weights)), float(weights.sum())
    effective = total**2 / float((weights**2).sum()) if acts else 0.0
    if effective < MIN_EFFECTIVE:
        return Estimate(name, acts, effective, None)
    terms = weights * values
    ips = _normal(float(terms.mean()), float(terms.std(ddof=1) / np.sqrt(terms.size)), confidence)
    mean = float(terms.sum() / total)
    error = float(np.sqrt((weights**2 * (values - mean) ** 2).sum()) / total)
    return Estimate(name, acts, effective, ips, _normal(mean, error, confidence))


def _normal(value: float, error: float, confidence: float) -> Interval:
    half = _z(confidence) * error
    return Interval(value, value - half, value + half)


def _z(confidence: float) -> float:
    return NormalDist().inv_cdf((1 + confidence) / 2)


def as_json(estimate: Estimate) -> dict[str, Any]:
    """Return the fields of an estimate, as JSON has them; None where there is not enough data."""
    intervals = {"ips": estimate.ips, "snips": estimate.snips}
    shown = {name: None if each is None else each._asdict() for name, each in intervals.items()}
    return {"name": estimate.name, "acts": estimate.acts, "effective": round(estimate.effective, 1), **shown}
