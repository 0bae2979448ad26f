"""A worker's estimate of the store's clock."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

STEP_SECONDS = 1.0
"""A clock that goes back by less is not reported: clocks are corrected by so much, and those of servers differ."""
SILENT_SECONDS = 60.0
"""Steps are counted each, but logged at most so often: the masters of a cluster may have different clocks."""

log = logging.getLogger(__name__)


class StoreClock:
    """The monotonic clock of this process plus an offset that each reply of the store updates.

    Until the first reply the offset is that of this machine's wall clock.

    Parameters
    ----------
    monotonic : returns seconds since any moment
    wall : returns Unix seconds
    on_step_back : called each time the store's clock turns out to have been set back; None for nobody
    """

    def __init__(
        self,
        monotonic: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        on_step_back: Callable[[], None] | None = None,
    ) -> None:
        self.monotonic = monotonic
        self._offset = wall() - monotonic()
        self._on_step_back = on_step_back
        self._observed = False
        self._silent_until = float("-inf")

    def observe(self, seconds: float, sent: float | None = None) -> None:
        """Set the clock to the time in a reply.

        Parameters
        ----------
        seconds : Unix seconds in the reply
        sent : when the call was sent, by ``monotonic``; the store's clock showed no less when it read the time,
            unless it was set back; None where no step back is to be found
        """
        step = 0.0 if sent is None or not self._observed else sent + self._offset - seconds
        self._offset = seconds - self.monotonic()
        self._observed = True
        if step > STEP_SECONDS:
            self._report(step)

    def _report(self, step: float) -> None:
        if self._on_step_back is not None:
            self._on_step_back()
        if self.monotonic() >= self._silent_until:
            self._silent_until = self.monotonic() + SILENT_SECONDS
            log.warning(
                "the store's clock went back by %.1f s: what it stamped before falls due so much later; "
                "all servers of the store need synchronised clocks",
                step,
            )

    def now(self) -> float:
        """Return Unix seconds by the store's clock; they decrease if that clock was set back."""
        return self.monotonic() + self._offset
