"""What a session is created with."""

from __future__ import annotations

from typing import NamedTuple

from ..learners.base import Spec
from .loss_range import LossRange


class Expiry(NamedTuple):
    """When an outstanding decision is given up, and at which loss."""

    after_seconds: float
    loss: float | None
    """As the learner sees losses; None: nothing is learned."""


class Params(NamedTuple):
    """What a session is created with and never changes."""

    learner: Spec
    seed: int
    losses: LossRange = LossRange()
    expiry: Expiry | None = None
