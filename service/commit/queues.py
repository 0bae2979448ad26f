"""Requests that wait for their session: a queue for each, worked off in batches in the order of arrival."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextvars import Context, copy_context
from dataclasses import dataclass, field

from ..errors import OverloadedError
from ..telemetry.request_contexts import BATCH_CONTEXTS
from .contention import Contention
from .operation import Answer, Operation

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
class _SessionQueue:
    waiting: deque[_Waiting] = field(default_factory=deque)
    task: asyncio.Task[None] | None = None


class SessionQueues:
    """The lanes of one worker, bounded each and together.

    Parameters
    ----------
    work : commits a batch
    contention : says how long a session's queue waits before its next batch
    max_queue, max_waiting : requests that may wait for one session, and for all together
    """

    def __init__(self, work: Work, contention: Contention, *, max_queue: int, max_waiting: int) -> None:
        self._work = work
        self._contention = contention
        self._max_queue = max_queue
        self._max_waiting = max_waiting
        self._accepted = 0
        """Requests of all sessions that were taken and not answered yet."""
        self._queues: dict[str, _SessionQueue] = {}

    async def submit(self, session_id: str, operation: Operation) -> Answer:
        """Wait for a batch, and then for its answer."""
        if self._accepted >= self._max_waiting:
            raise OverloadedError("Too many requests are waiting")
        queue = self._queues.setdefault(session_id, _SessionQueue())
        if len(queue.waiting) >= self._max_queue:
            raise OverloadedError("Too many requests are waiting for this session")
        waiting = _Waiting(operation, asyncio.get_running_loop().create_future())
        queue.waiting.append(waiting)
        if queue.task is None:
            queue.task = asyncio.create_task(self._drain(session_id, queue))
        self._accepted += 1
        try:
            return await waiting.answer
        finally:
            self._accepted -= 1

    async def drained(self) -> None:
        """Return when every request taken so far has been answered."""
        while tasks := [queue.task for queue in self._queues.values() if queue.task is not None]:
            await asyncio.wait(tasks)

    async def _drain(self, session_id: str, queue: _SessionQueue) -> None:
        await self._contention.wait(session_id)
        while batch := _take(queue.waiting):
            BATCH_CONTEXTS.set([each.context for each in batch])
            _answer(batch, await self._work(session_id, [each.operation for each in batch]))
            self._contention.on_commit(session_id)
            await self._contention.wait(session_id)
        del self._queues[session_id]


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
