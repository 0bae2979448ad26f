"""Metrics and trace spans of the calls to a store."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING

from ..errors import StoreUnavailableError
from ..telemetry.metrics import Metrics
from .base import (
    Commit,
    Committed,
    Conflict,
    Counts,
    History,
    Known,
    Log,
    NewSession,
    NotFound,
    Outcome,
    Page,
    ReadSegments,
    Reminders,
    Snapshot,
    Store,
    WholeSession,
)

if TYPE_CHECKING:
    from opentelemetry.trace import Span

    from ..telemetry.tracing import Spans

NAMES: Mapping[type[Outcome], str] = {
    Committed: "committed",
    Known: "known",
    Conflict: "conflict",
    NotFound: "not_found",
}


class _TimedCall:
    """Times one call; a class, as a generator's context manager takes three times as long.

    Parameters
    ----------
    call : its name in metrics and spans
    metrics, spans, on_failure : as ``InstrumentedStore`` has them
    """

    __slots__ = ("_call", "_metrics", "_on_failure", "_open", "_spans", "_started")

    def __init__(
        self, call: str, metrics: Metrics, spans: Spans | None, on_failure: Callable[[str, str], None] | None
    ) -> None:
        self._call, self._metrics, self._spans, self._on_failure = call, metrics, spans, on_failure
        self._open: AbstractContextManager[Span] | None = None

    def __enter__(self) -> Span | None:
        self._started = time.perf_counter()
        if self._spans is None:
            return None
        self._open = self._spans.store_call(self._call)
        return self._open.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self._open is not None:
                self._open.__exit__(kind, error, trace)
        finally:
            if isinstance(error, StoreUnavailableError):
                self._metrics.store_failures[self._call]()
                if self._on_failure is not None:
                    self._on_failure(self._call, str(error))
            self._metrics.store_seconds[self._call](time.perf_counter() - self._started)


class InstrumentedStore:
    """Wraps a store: records latency, failures and outcomes of its calls in metrics and spans.

    ``Store`` says what each call does.

    Parameters
    ----------
    store : carries out the calls
    metrics : of this worker
    spans : makes a span for each call; None if requests are not traced
    on_failure : gets the name of each call that failed, and why; None for nobody
    """

    def __init__(
        self,
        store: Store,
        metrics: Metrics,
        spans: Spans | None = None,
        on_failure: Callable[[str, str], None] | None = None,
    ) -> None:
        self._store = store
        self._metrics = metrics
        self._spans = spans
        self._on_failure = on_failure
        self.now = store.now

    def _timed(self, call: str) -> _TimedCall:
        return _TimedCall(call, self._metrics, self._spans, self._on_failure)

    @property
    def reminders(self) -> Reminders:
        return self._store.reminders

    @property
    def history(self) -> History:
        return self._store.history

    async def create(self, session: NewSession) -> Snapshot:
        with self._timed("create"):
            return await self._store.create(session)

    async def load(self, session_id: str) -> Snapshot | None:
        with self._timed("load"):
            return await self._store.load(session_id)

    async def recall(self, session_id: str, digest: bytes) -> bytes | None:
        with self._timed("recall"):
            return await self._store.recall(session_id, digest)

    async def commit(self, commit: Commit) -> Outcome:
        with self._timed("commit") as span:
            outcome = await self._store.commit(commit)
            if span is not None:
                span.set_attribute("bandit.outcome", NAMES[type(outcome)])
        self._metrics.commits[NAMES[type(outcome)]]()
        return outcome

    async def read_records(self, session_id: str) -> Mapping[bytes, bytes]:
        with self._timed("read_records"):
            return await self._store.read_records(session_id)

    async def read_counts(self, session_id: str, arms: Sequence[int]) -> Counts | None:
        with self._timed("read_counts"):
            return await self._store.read_counts(session_id, arms)

    async def read_segments(self, session_id: str, names: Sequence[bytes], oldest: int = 0) -> ReadSegments | None:
        with self._timed("read_segments"):
            return await self._store.read_segments(session_id, names, oldest)

    async def segment_names(
        self, session_id: str, after: bytes | None, limit: int, *, backwards: bool = False
    ) -> Sequence[bytes]:
        with self._timed("segment_names"):
            return await self._store.segment_names(session_id, after, limit, backwards=backwards)

    async def read_log(self, session_id: str, after: str | None, limit: int) -> Log | None:
        with self._timed("read_log"):
            return await self._store.read_log(session_id, after, limit)

    async def delete(self, session_id: str) -> bool:
        with self._timed("delete"):
            return await self._store.delete(session_id)

    async def list(self, cursor: str | None, limit: int, prefix: str = "") -> Page:
        with self._timed("list"):
            return await self._store.list(cursor, limit, prefix)

    async def export(self, session_id: str) -> WholeSession | None:
        with self._timed("export"):
            return await self._store.export(session_id)

    async def restore(self, session_id: str, whole: WholeSession, new: NewSession) -> Snapshot | None:
        with self._timed("restore"):
            return await self._store.restore(session_id, whole, new)

    async def count(self, prefix: str, most: int) -> int:
        with self._timed("count"):
            return await self._store.count(prefix, most)

    async def announce(self, worker: str, schemas: Sequence[int], seconds: float) -> Sequence[frozenset[int]]:
        with self._timed("announce"):
            return await self._store.announce(worker, schemas, seconds)

    async def ping(self) -> None:
        with self._timed("ping"):
            await self._store.ping()

    async def close(self) -> None:
        await self._store.close()
