"""How many arms a session's distribution amounts to, as lists show it."""

from __future__ import annotations

from typing import NamedTuple

from ...engine.run import Run
from ...serialization.summary import effective_arms_of

EFFECTIVE_SECONDS = 9.0
"""Lists may show an ``effective_arms`` this old, plus the time between commits."""


class Effective(NamedTuple):
    """How many arms the distribution amounts to, as lists show it."""

    value: float | None
    """None over points."""
    at: float
    """When it was computed, in Unix seconds."""

    @classmethod
    def of(cls, run: Run, before: Effective | None) -> Effective:
        """Take the value before for some seconds: computing it costs much where there are many arms.

        Parameters
        ----------
        run : the session's, as it is about to be committed
        before : of an earlier commit of this worker; None where there was none
        """
        if before is not None and run.ledger.time - before.at < EFFECTIVE_SECONDS:
            return before
        return cls(effective_arms_of(run), run.ledger.time)
