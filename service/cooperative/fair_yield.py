"""Yielding the event loop within long work, so that other requests run in between."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import ClassVar
from weakref import WeakKeyDictionary

_Queue = deque[asyncio.Future[None]]
_QUEUES: WeakKeyDictionary[asyncio.AbstractEventLoop, _Queue] = WeakKeyDictionary()
"""Long works that wait to go on, by their event loop."""


class FairYield:
    """Lets other requests have their turn within long work; long works have theirs one after another."""

    turn_seconds: ClassVar[float] = 0.003
    """Arithmetic done before others get their turn; the first turn is shorter where long works are waiting."""
    rest_seconds: ClassVar[float] = 0.0
    """Time left to others after each turn."""
    _paused: ClassVar[int] = 0

    def __init__(self) -> None:
        self._since = time.perf_counter()
        self._turn = self.turn_seconds / (1 + FairYield._paused)

    async def __call__(self) -> None:
        """Yield the event loop if it was held long enough."""
        if time.perf_counter() - self._since > self._turn:
            FairYield._paused += 1
            try:
                await (asyncio.sleep(self.rest_seconds) if self.rest_seconds else _next_turn())
            finally:
                FairYield._paused -= 1
            self._since, self._turn = time.perf_counter(), self.turn_seconds


def _next_turn() -> asyncio.Future[None]:
    """Comes after those of all who wait already; between two turns the event loop does everything else once."""
    loop = asyncio.get_running_loop()
    queue, turn = _QUEUES.setdefault(loop, deque()), loop.create_future()
    if not queue:
        loop.call_soon(_give_turn, queue)
    queue.append(turn)
    return turn


def _give_turn(queue: _Queue) -> None:
    while queue and queue[0].cancelled():
        queue.popleft()
    if queue:
        turn = queue.popleft()
        turn.set_result(None)
        if queue:
            turn.get_loop().call_soon(_give_turn, queue)


class BackgroundYield(FairYield):
    """A pause of work in the background: a third of the time is its own, so that others are hardly slower."""

    turn_seconds = 0.001
    rest_seconds = 0.002
