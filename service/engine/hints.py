"""Hints why a session may not learn, from its counts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ..learners.base import FloatArray
from .run import Run

SILENT_SLOTS = 100
"""Slots without anything settled after which feedback seems to be missing."""
ALIKE_LOSSES = 100
"""Losses after which it says something that all were alike."""
MANY_OUTSTANDING = 1000
"""Outstanding decisions from which on it says something that they are most of all."""


class Hint(NamedTuple):
    """Why a session may not learn; ``code`` stays the same, ``message`` is for people."""

    code: str
    message: str


def hints(run: Run, *, mostly_surplus: bool = False) -> Iterator[Hint]:
    """Yield the hints for a session.

    Parameters
    ----------
    run : of the session; its counts, its default loss and whether decisions expire are looked at
    mostly_surplus : whether most of the latest events answered no outstanding decision
    """
    ledger, expires = run.ledger, run.params.expiry is not None
    is_silent = ledger.slot == ledger.outstanding
    if ledger.slot >= SILENT_SLOTS and is_silent and not expires:
        yield Hint("no_feedback", f"{ledger.slot} decisions and no feedback: nothing can be learned.")
    if expires and ledger.outstanding and not (ledger.feedbacks or ledger.voided or ledger.expired):
        yield Hint("first_window", "The first window has not ended and no event has come: no loss is known yet.")
    if ledger.losses >= ALIKE_LOSSES and ledger.equal_losses and not _has_other_default(run):
        what = "rewards" if run.params.losses.word == "reward" else "losses"
        yield Hint("equal_losses", f"All {ledger.losses} {what} were alike: no arm looks better than another.")
    many = ledger.outstanding > MANY_OUTSTANDING and 2 * ledger.outstanding > ledger.slot
    if many and not expires:
        text = f"{ledger.outstanding} of {ledger.slot} decisions wait for feedback: give the session an expiry, or"
        yield Hint("growing_outstanding", f"{text} report also that nothing happened.")
    if mostly_surplus:
        text = "Most of the last 1,000 events answered no outstanding decision: they come twice, or too late."
        yield Hint("mostly_surplus", text)


def _has_other_default(run: Run) -> bool:
    """Return whether outstanding decisions count already, as another loss than those that were reported."""
    expiry, ledger = run.params.expiry, run.ledger
    if expiry is None or not expiry.provisional or not ledger.outstanding:
        return False
    return expiry.loss != ledger.mean_loss


def effective_arms(p: FloatArray) -> float:
    """Return how many arms a distribution, shape (arms,), amounts to: exp of its entropy, to 12 digits."""
    positive = p[p > 0]
    # The digits behind are of rounding.
    return float(f"{np.exp(-np.dot(positive, np.log(positive))):.12g}")
