"""Long computations yield the event loop, so that other requests run in between."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import ClassVar
from weakref import WeakKeyDictionary

_Queue = deque[asyncio.Future[None]]
_QUEUES: WeakKeyDictionary[asyncio.AbstractEventLoop, _Queue] = WeakKeyDictionary()
"""For each event loop, the long computations that wait to continue, first come, first served."""


class FairYield:
    """Await it often within a long computation: it yields the event loop when a time slice is used up.

    Between two slices, of whichever computations, the event loop does everything else that is ready.
    """

    slice_seconds: ClassVar[float] = 0.003
    """Length of a time slice; the first slice is shorter if other long computations wait."""
    pause_seconds: ClassVar[float] = 0.0
    """Time to sleep after each slice; if 0, the computation waits in the queue instead."""
    _waiting: ClassVar[int] = 0
    """Number of long computations that wait to continue."""

    def __init__(self) -> None:
        self._since = time.perf_counter()
        self._slice = self.slice_seconds / (1 + FairYield._waiting)

    async def __call__(self) -> None:
        """Yield the event loop if the time slice is used up."""
        if time.perf_counter() - self._since > self._slice:
            FairYield._waiting += 1
            try:
                await (asyncio.sleep(self.pause_seconds) if self.pause_seconds else _wait_in_queue())
            finally:
                FairYield._waiting -= 1
            self._since, self._slice = time.perf_counter(), self.slice_seconds


def _wait_in_queue() -> asyncio.Future[None]:
    """Return a future that is done after those of all computations in the queue.

    One is resumed in each pass of the event loop.
    """
    loop = asyncio.get_running_loop()
    queue, resumed = _QUEUES.setdefault(loop, deque()), loop.create_future()
    if not queue:
        loop.call_soon(_resume_next, queue)
    queue.append(resumed)
    return resumed


def _resume_next(queue: _Queue) -> None:
    while queue and queue[0].cancelled():
        queue.popleft()
    if queue:
        resumed = queue.popleft()
        resumed.set_result(None)
        if queue:
            resumed.get_loop().call_soon(_resume_next, queue)


class BackgroundYield(FairYield):
    """For work in the background: it runs for a third of the time, so that requests are hardly slower."""

    slice_seconds = 0.001
    pause_seconds = 0.002
