"""How sure a mean is, and a difference of two, however often one looks.

The intervals are asymptotic confidence sequences (Waudby-Smith et al. 2024, Annals of Statistics 52(6)).
Rewards are normalised here: 0 for the worst, 1 for the best of the range.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from .ledger import Expiry, Ledger, LossRange

ALPHA = 0.05
"""Share of sessions whose value is ever outside, about, as the number of acts grows."""
GROUP_ACTS, ARM_ACTS = 5000, 1000
"""Acts after which the interval of a difference, and of an arm, is narrowest, against that of a single look."""
FIRST_ACTS = 200
"""Acts of both groups from which on there is a verdict."""
_DOUBT = -2 * math.log(ALPHA) + math.log(1 - 2 * math.log(ALPHA))
"""r times the acts after which the interval is narrowest."""
_LARGEST = 1.797e308
"""What is not clipped otherwise stays finite."""
_NO_SIZE = 1e-12
"""Share of the range's ends below which a mean is 0 but for rounding."""


class Sums(NamedTuple):
    """Acts of a group, and sums of their normalised rewards and of the squares of these."""

    acts: int
    total: float
    squares: float

    @property
    def cautious(self) -> tuple[float, float]:
        """Mean and variance with four acts more, two of them worth 1."""
        mean = (self.total + 2) / (self.acts + 4)
        return mean, (self.squares + 2) / (self.acts + 4) - mean * mean


def group_sums(ledger: Ledger, losses: LossRange, expiry: Expiry | None, past: Ledger | None = None) -> Sums:
    """Return the sums of a group: an act that is not void counts as the default until an event replaces it.

    Without a default only settled decisions count.

    Parameters
    ----------
    ledger : counts of the group
    losses, expiry : of its session
    past : counts of those of its decisions that are left out
    """
    if past is not None:
        pairs = zip(group_sums(ledger, losses, expiry), group_sums(past, losses, expiry), strict=True)
        acts, total, squares = (max(now - before, 0) for now, before in pairs)
        return Sums(int(acts), total, squares)
    count, raw = ledger.losses, not losses.normalize
    loss = losses.share(ledger.mean_loss) if raw else ledger.mean_loss
    width = abs(losses.worst - losses.best) if raw else 1.0
    reward = 1 - min(max(loss, 0.0), 1.0)
    # No numbers of [0, 1] lie further off their mean.
    off = min(ledger.squares / width / width, count * reward * (1 - reward))
    total, squares = count * reward, off + count * reward * reward
    if expiry is None or expiry.loss is None:
        return Sums(count, total, squares)
    acts, default = ledger.slot - ledger.voided, 1 - (losses.share(expiry.loss) if raw else expiry.loss)
    return Sums(acts, total + (acts - count) * default, squares + (acts - count) * default * default)


def radius(variance: float, acts: float, tuned_to: float) -> float:
    """Return half the width of the interval of a mean, or of a difference of means.

    Parameters
    ----------
    variance : of one act; of a difference sum_g v_g n/n_g
    acts : n, those of all groups, at least 1
    tuned_to : acts at which the interval is to be narrow
    """
    r = _DOUBT / tuned_to
    grown = acts * r + 1
    return math.sqrt(variance * 2 * grown / (acts * acts * r) * math.log(math.sqrt(grown) / ALPHA))


def mean_interval(total: float, acts: float) -> tuple[float, float]:
    """Return the ends of the interval of an arm's mean, cut to [0, 1]; (0, 1) without acts.

    Parameters
    ----------
    total : sum of normalised rewards
    acts : how many there are
    """
    if acts <= 0:
        return 0.0, 1.0
    mean, cautious = total / acts, (total + 2) / (acts + 4)
    half = radius(cautious * (1 - cautious), acts, ARM_ACTS)
    return max(mean - half, 0.0), min(mean + half, 1.0)


def verdict(learner: Sums, control: Sums, losses: LossRange) -> dict[str, Any] | None:
    """Return the difference of two groups in the unit that is posted, positive if the learner's is better.

    It is None before ``FIRST_ACTS`` acts of both, or if one group has none.

    Parameters
    ----------
    learner, control : sums of the groups
    losses : the range of both, and what is posted
    """
    acts = learner.acts + control.acts
    if acts < FIRST_ACTS or not learner.acts or not control.acts:
        return None
    width, ends = abs(losses.worst - losses.best), max(abs(losses.worst), abs(losses.best))
    base = losses.at_share(1 - control.total / control.acts)
    variance = sum(max(group.cautious[1], 0.0) * acts / group.acts for group in (learner, control))
    difference = (learner.total / learner.acts - control.total / control.acts) * width
    half = radius(variance, acts, GROUP_ACTS) * width
    low, high = max(difference - half, -_LARGEST), min(difference + half, _LARGEST)
    return {
        "difference": difference,
        "low": low,
        "high": high,
        "lift": difference / abs(base) if abs(base) > _NO_SIZE * ends else None,
        "confidence": 1 - ALPHA,
        "is": "better" if low > 0 else "worse" if high < 0 else "unclear",
    }
