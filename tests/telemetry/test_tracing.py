"""Traces: spans of requests and of the store."""

import asyncio

import httpx
import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from service.api.middleware import labels
from service.app import create_app
from service.errors import StoreUnavailableError
from service.learners.dexp3 import Dexp3Spec
from service.models.specification import Specification
from service.models.stored import Stored
from service.serialization import state as codec
from service.sessions.act import Act
from service.settings import Settings
from service.store.base import NewSession
from service.store.memory import MemoryStore
from service.telemetry.metrics import Metrics, timed
from service.telemetry.tracing import Spans
from tests.support.sessions import queues_on

ARMS = {"learner": {"kind": "dexp3", "n_arms": 3}, "seed": 7, "session_id": "s-1"}
TRACE, CALLER = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
ACT = "POST /v1/sessions/{session_id}/act"


class Traced:
    """A client of an application whose spans are kept in memory."""

    def __init__(self, client, exporter):
        self.client = client
        self._exporter = exporter

    def spans(self, name=None):
        found = self._exporter.get_finished_spans()
        return [span for span in found if name in (None, span.name)]

    async def span(self, method, path, **options):
        """The server span of one request."""
        self._exporter.clear()
        await self.client.request(method, path, **options)
        (span,) = (span for span in self.spans() if span.kind is SpanKind.SERVER)
        return span


def spans_in_memory():
    """A provider of spans, and what keeps those that have ended."""
    exporter, provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return provider, exporter


@pytest.fixture
async def traced():
    provider, exporter = spans_in_memory()
    app = create_app(Settings(), MemoryStore(), spans=Spans(provider))
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://a") as client,
    ):
        yield Traced(client, exporter)


class SlowStore(MemoryStore):
    """A store whose commits wait until they are let through."""

    def __init__(self):
        super().__init__()
        self.open, self.entered = asyncio.Event(), asyncio.Event()

    async def commit(self, commit):
        self.entered.set()
        await self.open.wait()
        return await super().commit(commit)


async def test_a_request_has_a_span_with_what_its_line_in_the_log_tells(traced):
    await traced.client.post("/v1/sessions", json=ARMS)

    span = await traced.span("POST", "/v1/sessions/s-1/act", headers={"X-Request-ID": "r 1"})

    assert span.name == ACT
    assert span.parent is None
    assert dict(span.attributes) == {
        "url.scheme": "http",
        "http.request.method": "POST",
        "http.route": "/v1/sessions/{session_id}/act",
        "http.response.status_code": 200,
        "bandit.request_id": "r 1",
        "bandit.session": "s-1",
    }


async def test_what_another_worker_carries_out_is_a_span_within_the_requests():
    provider, exporter = spans_in_memory()
    spans = Spans(provider)
    with spans.of_request({"headers": []}), spans.of_request({"headers": spans.headers()}):
        pass
    within, around = exporter.get_finished_spans()

    assert within.parent.span_id == around.context.span_id
    assert within.context.trace_id == around.context.trace_id


async def test_the_store_calls_of_a_request_are_its_children(traced):
    create = await traced.span("POST", "/v1/sessions", json=ARMS)
    children = [span for span in traced.spans() if span.parent == create.context]
    act = await traced.span("POST", "/v1/sessions/s-1/act")
    (commit,) = traced.spans("store commit")

    assert [child.name for child in children] == ["store create"]
    assert commit.parent == act.context
    assert commit.kind is SpanKind.CLIENT
    told = {"db.operation.name": "commit", "bandit.requests": 1, "bandit.outcome": "committed"}
    assert dict(commit.attributes) == told


async def test_one_commit_for_many_requests_belongs_to_the_first_and_is_linked_to_the_others():
    store, (provider, exporter) = SlowStore(), spans_in_memory()
    stored = Stored.of(Specification(learner=Dexp3Spec(n_arms=3), seed=1))
    run = stored.start()
    await store.create(NewSession("s", "first", stored.encode(), codec.encode(run)))
    queues = queues_on(timed(store, Metrics(labels()), Spans(provider).store_call))
    contexts = []

    async def ask():
        with provider.get_tracer("test").start_as_current_span("request") as span:
            contexts.append(span.context)
            await queues.submit("s", Act(1, 100, single=True))

    first = asyncio.create_task(ask())
    await store.entered.wait()
    others = [asyncio.create_task(ask()) for _ in range(3)]
    await asyncio.sleep(0)
    store.open.set()
    await asyncio.gather(first, *others)
    alone, together = (span for span in exporter.get_finished_spans() if span.name == "store commit")

    assert (alone.attributes["bandit.requests"], together.attributes["bandit.requests"]) == (1, 3)
    assert [alone.parent, together.parent] == contexts[:2]
    assert [[link.context for link in span.links] for span in (alone, together)] == [[], contexts[2:]]


async def test_the_callers_trace_goes_on(traced):
    span = await traced.span("GET", "/metrics", headers={"traceparent": f"00-{TRACE}-{CALLER}-01"})

    assert f"{span.context.trace_id:032x}" == TRACE
    assert f"{span.parent.span_id:016x}" == CALLER
    assert span.name == "GET /metrics"


@pytest.mark.parametrize("parent", ["", "00-0-0-01", f"00-{'0' * 32}-{CALLER}-01", "x" * 10_000, "\u00e9"])
async def test_a_caller_that_names_no_trace_begins_one(traced, parent):
    span = await traced.span("GET", "/metrics", headers={"traceparent": parent.encode()})

    assert span.parent is None


async def test_a_caller_that_does_not_sample_gets_no_spans(traced):
    await traced.client.get("/metrics", headers={"traceparent": f"00-{TRACE}-{CALLER}-00"})

    assert traced.spans() == []


@pytest.mark.parametrize("path", ["/livez", "/readyz"])
async def test_probes_have_no_spans(traced, path):
    for method in ("GET", "HEAD"):
        answer = await traced.client.request(method, path, headers={"traceparent": f"00-{TRACE}-{CALLER}-01"})
        assert answer.is_success

    assert traced.spans() == []


async def test_names_of_spans_come_from_the_routes_alone(traced):
    for number in range(50):
        await traced.client.get(f"/v1/sessions/s{number}?cursor=hunter{number}")
        await traced.client.get(f"/nowhere/{number}?api_key=hunter{number}")
        await traced.client.request(f"METHOD{number}", "/metrics")

    told = repr([(span.name, dict(span.attributes), span.events) for span in traced.spans()])
    assert {span.name for span in traced.spans()} == {"GET /v1/sessions/{session_id}", "HTTP"}
    assert "hunter" not in told
    assert "nowhere" not in told
    assert "METHOD" not in told


@pytest.mark.parametrize(("error", "status"), [(StoreUnavailableError, 503), (RuntimeError, 500)])
async def test_a_failure_is_told_without_its_text(traced, monkeypatch, error, status):
    async def load(store, session_id, *arms):
        raise error("no answer from redis://user:hunter22@host")

    monkeypatch.setattr(MemoryStore, "load", load)
    span = await traced.span("GET", "/v1/sessions/s-1")
    (call,) = traced.spans("store load")

    assert span.status.status_code is call.status.status_code is StatusCode.ERROR
    assert (span.attributes["http.response.status_code"], span.attributes["error.type"]) == (status, str(status))
    assert call.attributes["error.type"] == error.__name__
    assert "hunter22" not in "".join(span.to_json() for span in traced.spans())


async def test_what_a_client_did_wrong_is_no_error(traced):
    span = await traced.span("GET", "/v1/sessions/none")

    assert span.attributes["http.response.status_code"] == 404
    assert span.status.status_code is StatusCode.UNSET


async def test_a_session_of_any_length_is_told_as_in_the_log(traced):
    odd = await traced.span("GET", "/v1/sessions/redis:%2F%2Fu:hunter22@h")
    long = await traced.span("GET", f"/v1/sessions/{'x' * 5_000}")

    assert "hunter22" not in odd.to_json()
    assert long.attributes["bandit.session"] == "x" * 128
