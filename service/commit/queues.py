"""Requests that wait for their session: a lane for each, worked off in batches in the order of arrival."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextvars import Context, copy_context
from dataclasses import dataclass, field

from service.commit.batch import Answer, Operation
from service.commit.contention import Turns
from service.errors import OverloadedError
from service.telemetry.request_contexts import ASKERS

MAX_FOLD_WEIGHT = 2_000
"""Acts and events folded into one commit, beyond the first request."""

Work = Callable[[str, Sequence[Operation]], Awaitable[Sequence[Answer | Exception]]]
"""Commits a session's batch; tells what became of each request, and raises nothing."""


@dataclass(slots=True, eq=False)
class _Waiting:
    operation: Operation
    answer: asyncio.Future[Answer]
    context: Context = field(default_factory=copy_context)


@dataclass(slots=True)
class _Lane:
    waiting: deque[_Waiting] = field(default_factory=deque)
    task: asyncio.Task[None] | None = None


class Lanes:
    """The lanes of one worker, bounded each and together.

    Parameters
    ----------
    work : commits a batch
    turns : says how long a session's lane rests before its next batch
    max_queue, max_waiting : requests that may wait for one session, and for all together
    """

    def __init__(self, work: Work, turns: Turns, *, max_queue: int, max_waiting: int) -> None:
        self._work = work
        self._turns = turns
        self._max_queue = max_queue
        self._max_waiting = max_waiting
        self._accepted = 0
        """Requests of all sessions that were taken and not answered yet."""
        self._lanes: dict[str, _Lane] = {}

    async def submit(self, session_id: str, operation: Operation) -> Answer:
        """Wait for a batch, and then for its answer."""
        if self._accepted >= self._max_waiting:
            raise OverloadedError("Too many requests are waiting")
        lane = self._lanes.setdefault(session_id, _Lane())
        if len(lane.waiting) >= self._max_queue:
            raise OverloadedError("Too many requests are waiting for this session")
        waiting = _Waiting(operation, asyncio.get_running_loop().create_future())
        lane.waiting.append(waiting)
        if lane.task is None:
            lane.task = asyncio.create_task(self._drain(session_id, lane))
        self._accepted += 1
        try:
            return await waiting.answer
        finally:
            self._accepted -= 1

    async def drained(self) -> None:
        """Return when every request taken so far has been answered."""
        while tasks := [lane.task for lane in self._lanes.values() if lane.task is not None]:
            await asyncio.wait(tasks)

    async def _drain(self, session_id: str, lane: _Lane) -> None:
        await self._turns.rest(session_id)
        while batch := _take(lane.waiting):
            ASKERS.set([each.context for each in batch])
            _answer(batch, await self._work(session_id, [each.operation for each in batch]))
            self._turns.won(session_id)
            await self._turns.rest(session_id)
        del self._lanes[session_id]


def _take(waiting: deque[_Waiting]) -> list[_Waiting]:
    """The next batch; requests whose client has gone before they were taken are dropped."""
    batch: list[_Waiting] = []
    weight = 0
    while waiting and (not batch or weight + waiting[0].operation.weight <= MAX_FOLD_WEIGHT):
        each = waiting.popleft()
        if not each.answer.cancelled():
            batch.append(each)
            weight += each.operation.weight
    return batch


def _answer(batch: Sequence[_Waiting], outcomes: Sequence[Answer | Exception]) -> None:
    for each, outcome in zip(batch, outcomes, strict=True):
        if each.answer.done():
            continue
        if isinstance(outcome, Exception):
            each.answer.set_exception(outcome)
        else:
            each.answer.set_result(outcome)
