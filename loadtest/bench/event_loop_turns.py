"""For how long a large request blocks the event loop: the longest turn while it is worked on."""

from __future__ import annotations

import asyncio
import gc
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise

from loadtest.bench.in_process_app import in_process_app
from loadtest.bench.large_requests import LARGE_REQUESTS
from loadtest.errors import ServiceError
from service.server.worker import limit_event_loop_waits


async def longest_turn(name: str, clock: Callable[[], float]) -> float:
    """Work on a large request of ``LARGE_REQUESTS``.

    Parameters
    ----------
    name : of the request
    clock : what turns are measured by

    Returns
    -------
    float
        What the longest turn of the event loop took until the request was answered.
    """
    large = LARGE_REQUESTS[name]
    async with in_process_app() as service:
        asked = await large.prepare(service)
        call = asyncio.create_task(service.call(*asked))
        del asked
        turns = [clock()]
        while not call.done():
            await asyncio.sleep(0)
            turns.append(clock())
        status, _ = await call
    if status != large.status:
        raise ServiceError(f"{name}: status {status}")
    return max(after - before for before, after in pairwise(turns))


@contextmanager
def worker_settings() -> Iterator[None]:
    """Threads and garbage as a worker has them."""
    before = sys.getswitchinterval()
    limit_event_loop_waits()
    try:
        yield
    finally:
        gc.unfreeze()
        sys.setswitchinterval(before)


def milliseconds(name: str) -> float:
    """Processor time of the longest turn of this thread."""
    with worker_settings():
        return 1000 * asyncio.run(longest_turn(name, time.thread_time))
