"""Work in threads: one at a time, as more would keep the event loop waiting and none would be done sooner."""

from __future__ import annotations

import asyncio
import threading

from service.cooperative import LARGE_INPUT_BYTES, run_in_thread_if_large


async def test_large_works_take_turns_in_one_thread():
    def work():
        return sum(range(200_000)), threading.get_ident()

    done = await asyncio.gather(*(run_in_thread_if_large(LARGE_INPUT_BYTES, work) for _ in range(6)))

    assert len(set(done)) == 1
    assert done[0][1] != threading.get_ident()
