"""What a worker measures of itself while it serves: how late its event loop runs, what waits, memory, readiness."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

from .metrics import Metrics

LAG_SECONDS = 0.25
"""Time between two measurements of the event loop's lag, and of queue and memory."""
READY_SECONDS = 5.0
"""Time between two looks at the store."""
_STATM = Path("/proc/self/statm")


class ProcessWatch:
    """Measures until it is stopped.

    Parameters
    ----------
    metrics : get what is measured
    waiting : how many requests wait in this worker
    is_ready : whether the worker can commit; asks the store
    """

    def __init__(
        self, metrics: Metrics, waiting: Callable[[], int], is_ready: Callable[[], Awaitable[bool]]
    ) -> None:
        self._metrics = metrics
        self._waiting = waiting
        self._is_ready = is_ready
        self._stopping = asyncio.Event()

    async def run(self) -> None:
        """Measure again and again."""
        await asyncio.gather(self._watch_event_loop(), self._watch_store())

    def stop(self) -> None:
        """End, after a look at the store that is under way."""
        self._stopping.set()

    async def _pause(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stopping.wait()

    async def _watch_event_loop(self) -> None:
        clock = asyncio.get_running_loop().time
        while not self._stopping.is_set():
            self._metrics.queued_requests.set(self._waiting())
            self._metrics.memory_bytes.set(resident_bytes())
            due = clock() + LAG_SECONDS
            await self._pause(LAG_SECONDS)
            self._metrics.event_loop_lag_seconds(max(0.0, clock() - due))

    async def _watch_store(self) -> None:
        while not self._stopping.is_set():
            self._metrics.ready.set(await self._is_ready())
            await self._pause(READY_SECONDS)


def resident_bytes() -> int:
    """Return the memory of this process that is not swapped out; 0 where the system doesn't say (Linux does)."""
    try:
        pages = int(_STATM.read_text().split()[1])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")
