"""Metrics and trace spans of the calls to a store."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

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
    StoreUnavailableError,
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

    @contextmanager
    def _timed(self, call: str) -> Iterator[Span | None]:
        started = time.perf_counter()
        try:
            with nullcontext() if self._spans is None else self._spans.store_call(call) as span:
                yield span
        except StoreUnavailableError as error:
            self._metrics.store_failures[call]()
            if self._on_failure is not None:
                self._on_failure(call, str(error))
            raise
        finally:
            self._metrics.store_seconds[call](time.perf_counter() - started)

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

    async def read_counts(self, session_id: str, arms: Sequence[int], *, as_texts: bool = False) -> Counts | None:
        with self._timed("read_counts"):
            return await self._store.read_counts(session_id, arms, as_texts=as_texts)

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

    async def ping(self) -> None:
        with self._timed("ping"):
            await self._store.ping()

    async def close(self) -> None:
        await self._store.close()
