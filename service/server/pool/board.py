"""A board in shared memory: every worker says that it lives and how many connections it holds.

All processes of a service read it at any moment, without messages that a process which stands still could hold up.
Each number is written by one process, as eight bytes at once.
"""

from __future__ import annotations

import mmap
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence

BEAT_SECONDS = 0.25
"""How often a worker's event loop says that it lives."""
FRESH_SECONDS = 4 * BEAT_SECONDS
"""A worker that has said nothing for so long is not expected to take a connection."""
_DRAINING, _FIRST_ROW, _ROW = 0, 1, 2
"""Places of the numbers: one for all, then two for each worker: time of the last beat, and connections."""


class Board:
    """The numbers of all processes of one service; the supervisor makes it, and workers inherit its descriptor.

    Parameters
    ----------
    descriptor : of the shared memory
    workers : number of rows; the methods name a worker by its place, from 0
    clock : seconds, the same for all processes of the machine

    Attributes
    ----------
    descriptor : for the workers' processes
    """

    def __init__(self, descriptor: int, workers: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.descriptor = descriptor
        self._numbers = memoryview(mmap.mmap(descriptor, _size(workers))).cast("d")
        self._workers = workers
        self._clock = clock

    @classmethod
    def create(cls, workers: int) -> Board:
        """Make an empty board."""
        descriptor = _shared_memory()
        os.truncate(descriptor, _size(workers))
        return cls(descriptor, workers)

    def is_draining(self) -> bool:
        """Return whether the service is about to stop, and still serves."""
        return bool(self._numbers[_DRAINING])

    def drain(self) -> None:
        """Let every worker say that it is not ready."""
        self._numbers[_DRAINING] = 1.0

    def beat(self, worker: int, connections: int) -> None:
        """Say that a worker's event loop runs, and how many connections it holds.

        Parameters
        ----------
        worker : its place among the workers, from 0
        connections : open ones, 0 or more
        """
        self._numbers[_row(worker) + 1] = connections
        self._numbers[_row(worker)] = self._clock()

    def count(self, worker: int, connections: int) -> None:
        """Say how many connections a worker holds.

        Parameters
        ----------
        worker : its place among the workers, from 0
        connections : open ones, 0 or more
        """
        self._numbers[_row(worker) + 1] = connections

    def last_beat(self, worker: int) -> float:
        """Return when a worker's event loop ran last, in seconds of the clock; 0 before it serves."""
        return self._numbers[_row(worker)]

    def forget(self, worker: int) -> None:
        """Clear the row of a worker that has ended."""
        self._numbers[_row(worker)] = self._numbers[_row(worker) + 1] = 0.0

    def serving(self) -> Sequence[int]:
        """Return the workers that serve, or did before they stood still."""
        return [worker for worker in range(self._workers) if self.last_beat(worker)]

    def least_connections(self, but: int) -> float:
        """Return the connections of the worker that holds fewest, among those that live; infinite without any.

        Parameters
        ----------
        but : the worker that asks, which is left out
        """
        since = self._clock() - FRESH_SECONDS
        others = (each for each in range(self._workers) if each != but and self.last_beat(each) >= since)
        return min((self._numbers[_row(each) + 1] for each in others), default=float("inf"))


def _row(worker: int) -> int:
    return _FIRST_ROW + _ROW * worker


def _size(workers: int) -> int:
    return 8 * _row(workers)


def _shared_memory() -> int:
    """Return a descriptor of memory that no other program finds, and that ends with its processes."""
    if sys.platform == "linux":
        return os.memfd_create("bandit-workers")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())
