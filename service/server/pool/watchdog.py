"""Finds workers whose event loop stands still: hung, stopped by a signal, or waiting for a disk that is gone."""

from __future__ import annotations

import logging
import re
from pathlib import Path

from .board import Board

LOOK_SECONDS = 0.5
"""How often the supervisor looks at the board."""
_START_SECONDS = 60.0
"""What a worker has to begin to serve: on a busy machine its imports alone take ten."""

log = logging.getLogger(__name__)


class Watchdog:
    """Counts for how long each worker has said nothing while the supervisor itself was running.

    A machine that slept, or a supervisor that was stopped, finds every beat old when it goes on: so a look counts
    for at most two times the usual pause, and workers that run again beat before the next. At most one worker is
    given up at a look. A worker under a debugger is never given up.

    Parameters
    ----------
    board : where the workers say that they live
    seconds : for how long a worker may say nothing
    """

    def __init__(self, board: Board, seconds: float) -> None:
        self._board = board
        self._seconds = seconds
        self._last_look: float | None = None
        self._silent: dict[int, tuple[int, float, float]] = {}
        """Worker to its process, its last beat and the seconds for which it has said nothing."""

    def stuck(self, processes: dict[int, int], now: float) -> int | None:
        """Return the worker that has been silent for longest, where that is too long.

        Parameters
        ----------
        processes : process id of each worker, by its place among the workers
        now : seconds of a clock that never goes back
        """
        passed = 0.0 if self._last_look is None else min(now - self._last_look, 2 * LOOK_SECONDS)
        self._last_look = now
        self._silent = {worker: self._listen(worker, process, passed) for worker, process in processes.items()}
        late = {worker: silent for worker, (_, beat, silent) in self._silent.items() if silent >= self._limit(beat)}
        for worker in sorted(late, key=late.__getitem__, reverse=True):
            if not is_traced(processes[worker]):
                del self._silent[worker]
                return worker
            log.warning("worker %d does not answer and is being debugged: it stays", processes[worker])
            self._silent[worker] = (processes[worker], self._board.last_beat(worker), 0.0)
        return None

    def _listen(self, worker: int, process: int, passed: float) -> tuple[int, float, float]:
        beat = self._board.last_beat(worker)
        before = self._silent.get(worker)
        if before is None or before[:2] != (process, beat):
            return process, beat, 0.0
        return process, beat, before[2] + passed

    def _limit(self, beat: float) -> float:
        return self._seconds if beat else max(self._seconds, _START_SECONDS)


def is_traced(process: int) -> bool:
    """Return whether a debugger holds the process; always False where there is no ``/proc``."""
    try:
        status = Path(f"/proc/{process}/status").read_text()
    except OSError:
        return False
    found = re.search(r"^TracerPid:\s*(\d+)", status, re.MULTILINE)
    return found is not None and found[1] != "0"
