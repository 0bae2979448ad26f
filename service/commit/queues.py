"""Requests that wait for their session: a queue for each, committed in batches in the order of arrival.

While a batch is being committed the requests for its session gather; together they are the next batch.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from contextvars import Context, copy_context
from dataclasses import dataclass, field

from ..errors import OverloadedError
from ..telemetry.logs import BATCH_CONTEXTS
from .committer import Committer
from .draft import Answer
from .operation import Operation

MAX_BATCH_WEIGHT = 2_000
"""Acts and events committed together, beyond the first request."""


@dataclass(slots=True, eq=False)
class _Waiting:
    operation: Operation
    future: asyncio.Future[Answer]
    context: Context = field(default_factory=copy_context)


@dataclass(slots=True)
class _SessionQueue:
    waiting: deque[_Waiting] = field(default_factory=deque)
    task: asyncio.Task[None] | None = None


class SessionQueues:
    """The queues of one worker, bounded each and together.

    Parameters
    ----------
    committer : of this worker, which commits the batches
    max_queue, max_waiting : requests that may wait for one session, and for all together
    """

    def __init__(self, committer: Committer, *, max_queue: int, max_waiting: int) -> None:
        self._committer = committer
        self._max_queue = max_queue
        self._max_waiting = max_waiting
        self._accepted = 0
        """Requests of all sessions that were accepted and not answered yet."""
        self._queues: dict[str, _SessionQueue] = {}

    async def submit(self, session_id: str, operation: Operation) -> Answer:
        """Apply a request to a session; the answer comes once the store has committed it.

        Parameters
        ----------
        session_id : of the session, in whose queue the request waits
        operation : the request

        Raises
        ------
        ServiceError
            as the operation, or the store, refuses it; nothing of it is applied then.
        OverloadedError
            where too many requests wait.
        """
        if self._accepted >= self._max_waiting:
            raise OverloadedError("Too many requests are waiting")
        if (queue := self._queues.get(session_id)) is None:
            queue = self._queues[session_id] = _SessionQueue()
        if len(queue.waiting) >= self._max_queue:
            raise OverloadedError("Too many requests are waiting for this session")
        waiting = _Waiting(operation, asyncio.get_running_loop().create_future())
        queue.waiting.append(waiting)
        if queue.task is None:
            queue.task = asyncio.create_task(self._commit_batches(session_id, queue))
        self._accepted += 1
        try:
            return await waiting.future
        finally:
            self._accepted -= 1

    @property
    def waiting(self) -> int:
        """Requests that were accepted and not answered yet."""
        return self._accepted

    async def drained(self) -> None:
        """Wait until every request accepted so far has been answered."""
        while tasks := [queue.task for queue in self._queues.values() if queue.task is not None]:
            await asyncio.wait(tasks)

    async def _commit_batches(self, session_id: str, queue: _SessionQueue) -> None:
        contention = self._committer.contention
        while queue.waiting:
            if session_id in contention.sessions:
                await contention.wait(session_id)
            if batch := _next_batch(queue.waiting):
                BATCH_CONTEXTS.set([each.context for each in batch])
                results = await self._committer.commit(session_id, [each.operation for each in batch])
                _resolve(batch, results)
                if session_id in contention.sessions:
                    contention.on_commit(session_id)
        del self._queues[session_id]


def _next_batch(waiting: deque[_Waiting]) -> list[_Waiting]:
    """Return the next requests to commit together; those that were cancelled meanwhile are dropped."""
    batch: list[_Waiting] = []
    weight = 0
    while waiting and (not batch or weight + waiting[0].operation.weight <= MAX_BATCH_WEIGHT):
        each = waiting.popleft()
        if not each.future.cancelled():
            batch.append(each)
            if waiting:  # Mostly one request waits, and what it weighs is of no use.
                weight += each.operation.weight
    return batch


def _resolve(batch: Sequence[_Waiting], results: Sequence[Answer | Exception]) -> None:
    for each, result in zip(batch, results, strict=True):
        if each.future.done():
            continue
        if isinstance(result, Exception):
            each.future.set_exception(result)
        else:
            each.future.set_result(result)
