"""Spans of requests and of calls to the store, for OpenTelemetry: see docs/traces.md.

A span contains what the request's log line contains: no query, no body, no text of an error.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial

from opentelemetry import propagate, trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import Link, Span, SpanKind, StatusCode
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from .logs import BATCH_CONTEXTS
from .metrics import OTHER

NAME = "delayed-bandits"
PROBES = frozenset({"/livez", "/readyz"})
"""Paths without spans: every few seconds somebody asks."""
MAX_LINKS = 100
"""Most links of a commit's span to requests of its batch; the span of the first request is its parent."""

log = logging.getLogger(__name__)


class Spans:
    """Makes the spans of one process."""

    def __init__(self, provider: TracerProvider) -> None:
        self._provider = provider
        begin = provider.get_tracer("service").start_as_current_span
        self._span = partial(begin, record_exception=False, set_status_on_exception=False)

    @classmethod
    def to_collector(cls) -> Spans:
        """Make spans that are sent in batches to the collector that OpenTelemetry's environment variables name.

        Raises
        ------
        ValueError
            if such a variable is invalid.
        """
        own = Resource.create({SERVICE_NAME: NAME, "process.pid": os.getpid()})
        resource = own.merge(OTELResourceDetector().detect())
        provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        provider.add_span_processor(BatchSpanProcessor(Delivery(OTLPSpanExporter())))
        # OpenTelemetry logs a line for every batch that fails; Delivery logs the first only.
        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
        return cls(provider)

    def around(self, app: ASGIApp) -> ASGIApp:
        """Wrap an application so that requests, but no probes, have spans."""

        async def traced(scope: Scope, receive: Receive, send: Send) -> None:
            is_traced = scope["type"] == "http" and scope["path"] not in PROBES
            with self.of_request(scope) if is_traced else nullcontext():
                await app(scope, receive, send)

        return traced

    def of_request(self, scope: Scope) -> AbstractContextManager[Span]:
        """Open a span for a request, a child of the client's span if it sends one."""
        context, attributes = propagate.extract(Headers(scope=scope)), {"url.scheme": scope.get("scheme", "http")}
        return self._span("HTTP", context=context, kind=SpanKind.SERVER, attributes=attributes)

    def headers(self) -> list[tuple[bytes, bytes]]:
        """Return headers that name the current request's span."""
        carrier: dict[str, str] = {}
        propagate.inject(carrier)
        return [(name.encode(), value.encode()) for name, value in carrier.items()]

    def answered(self, *, method: str, route: str, status: int, request_id: str, session: str | None) -> None:
        """Set name, status and attributes of the current request's span: what its log line contains.

        Parameters
        ----------
        method, route : as ``Metrics.answered`` returns them
        status : of HTTP
        request_id : as the answer's header has it
        session : its id, as log lines show it; None if the request names none
        """
        span = trace.get_current_span()
        if route != OTHER:
            span.update_name(f"{method} {route}")
            span.set_attribute("http.route", route)
        span.set_attribute("http.request.method", method if route != OTHER else "_OTHER")
        span.set_attribute("http.response.status_code", status)
        span.set_attribute("bandit.request_id", request_id)
        if session is not None:
            span.set_attribute("bandit.session", session)
        if status >= 500:
            _fail(span, str(status))

    def trace_id(self) -> str | None:
        """Return the current request's trace in hexadecimal digits, sampled or not."""
        context = trace.get_current_span().get_span_context()
        return trace.format_trace_id(context.trace_id) if context.is_valid else None

    @contextmanager
    def store_call(self, call: str) -> Iterator[Span]:
        """Open a span for one call to the store, a child of its request or of the first request of its batch.

        The span is linked to the other requests of the batch, at most ``MAX_LINKS``. Pings, which are probes of
        the store, have none.

        Parameters
        ----------
        call : the method of ``Store``, as metrics name it
        """
        if call == "ping":
            yield trace.INVALID_SPAN
            return
        batch = BATCH_CONTEXTS.get()
        spans = [context.run(trace.get_current_span) for context in batch[: MAX_LINKS + 1]]
        requests = [span for span in spans if span.get_span_context().is_valid]
        parent = trace.set_span_in_context(requests[0]) if requests else None
        attributes, links = {"db.operation.name": call}, [Link(each.get_span_context()) for each in requests[1:]]
        with self._span(f"store {call}", parent, SpanKind.CLIENT, attributes, links) as span:
            if batch or call == "commit":
                span.set_attribute("bandit.requests", len(batch) or 1)
            try:
                yield span
            except Exception as error:
                _fail(span, type(error).__name__)
                raise

    async def close(self, seconds: float) -> None:
        """Send the remaining spans, for at most ``seconds``."""
        loop, sent = asyncio.get_running_loop(), asyncio.Event()

        def send() -> None:
            self._provider.shutdown()
            loop.call_soon_threadsafe(sent.set)

        # The event loop waits for its executor's threads when it closes, however long the collector hangs.
        threading.Thread(target=send, daemon=True).start()
        try:
            async with asyncio.timeout(seconds):
                await sent.wait()
        except TimeoutError:
            log.warning("the last traces could not be delivered in time")


def _fail(span: Span, kind: str) -> None:
    span.set_status(StatusCode.ERROR)
    span.set_attribute("error.type", kind)


class Delivery(SpanExporter):
    """Wraps an exporter and logs when deliveries begin to fail and when they succeed again."""

    def __init__(self, exporter: SpanExporter) -> None:
        self._exporter, self._delivers = exporter, True

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = self._exporter.export(spans)
        delivers = result is SpanExportResult.SUCCESS
        if delivers is not self._delivers:
            log.warning("traces are delivered again" if delivers else "traces can't be delivered, and are dropped")
        self._delivers = delivers
        return result

    def shutdown(self) -> None:
        self._exporter.shutdown()
