"""A sample of a session's history as bytes: its counts at a moment, and what its learner would do."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..engine.arm_run import ArmRun
from ..engine.hints import effective_arms
from ..engine.run import Run

MAX_ARMS = 10
"""The most probable arms that a sample names."""
MAX_COORDINATES = 10
"""The first coordinates of a point that a sample has."""
MAX_COUNT = 2**64 - 1
_FORM = 1
_HEAD = struct.Struct("<Bd8Qdd")
_ARM = struct.Struct("<If")
_COORDINATE = struct.Struct("<d")


class Sample(NamedTuple):
    """A session at a moment."""

    at: float
    """Unix seconds."""
    slot: int
    feedbacks: int
    outstanding: int
    expired: int
    removed: int
    voided: int
    total_delay: int
    losses: int
    """How many losses the mean is over."""
    mean_loss: float
    """On the learner's scale."""
    effective_arms: float
    """0 over points."""
    arms: Sequence[tuple[int, float]] = ()
    """The most probable arms by index, with their probabilities, the most probable first."""
    x: Sequence[float] = ()
    """The first coordinates of the point, over points."""

    @classmethod
    def of(cls, run: Run, at: float) -> Sample:
        """Take a sample of a run, which is not changed.

        Parameters
        ----------
        run : of the session, with its counts and its learner's state
        at : Unix seconds
        """
        ledger = run.ledger
        counts = (ledger.slot, ledger.feedbacks, ledger.outstanding, ledger.expired, ledger.removed)
        more = (ledger.voided, ledger.total_delay, ledger.losses)
        if not isinstance(run, ArmRun):
            x = tuple(run.learner.x(run.state)[:MAX_COORDINATES].tolist())
            return cls(at, *counts, *more, ledger.mean_loss, 0.0, (), x)
        p = np.asarray(run.probabilities)
        top = np.argsort(-p, kind="stable")[:MAX_ARMS]
        arms = [(int(arm), float(p[arm])) for arm in top if p[arm] > 0]
        return cls(at, *counts, *more, ledger.mean_loss, effective_arms(p), arms)

    def encode(self) -> bytes:
        """Return the bytes of a sample: at most 169."""
        counts = [min(count, MAX_COUNT) for count in self[1:9]]
        head = _HEAD.pack(_FORM, self.at, *counts, self.mean_loss, self.effective_arms)
        arms, x = self.arms[:MAX_ARMS], self.x[:MAX_COORDINATES]
        return head + b"".join([_ARM.pack(*arm) for arm in arms] + [_COORDINATE.pack(each) for each in x])

    @classmethod
    def decode(cls, data: bytes) -> Sample | None:
        """Read a sample; None for bytes that this program does not write."""
        if len(data) < _HEAD.size or data[0] != _FORM or (len(data) - _HEAD.size) % _ARM.size:
            return None
        sample, rest = cls(*_HEAD.unpack_from(data)[1:]), data[_HEAD.size :]
        if sample.effective_arms:
            return sample._replace(arms=[(arm, float(f"{p:.6g}")) for arm, p in _ARM.iter_unpack(rest)])
        return sample._replace(x=[x for (x,) in _COORDINATE.iter_unpack(rest)])
