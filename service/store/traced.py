"""A measured store whose calls have spans too."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from service.store.base import Commit, Outcome, Store
from service.store.instrumented import NAMES, MeasuredStore
from service.telemetry.metrics import Metrics

if TYPE_CHECKING:
    from service.telemetry.tracing import Spans


class TracedStore(MeasuredStore):
    """Another store with its calls in metrics and traces."""

    def __init__(self, store: Store, metrics: Metrics, spans: Spans) -> None:
        super().__init__(store, metrics)
        self._spans = spans

    @contextmanager
    def _timed(self, call: str) -> Iterator[None]:
        with self._spans.store_call(call), super()._timed(call):
            yield

    async def commit(self, commit: Commit) -> Outcome:
        with self._spans.store_call("commit") as span:
            outcome = await super().commit(commit)
            span.set_attribute("bandit.outcome", NAMES[type(outcome)])
            return outcome
