"""Traces: spans of requests and of the store, in memory and as a collector gets them."""

import asyncio
import socket
import subprocess
import sys
from contextlib import AsyncExitStack

import httpx
import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from service.api.metric_labels import labels
from service.app import create_app
from service.commit.committer import Committer
from service.commit.queues import SessionQueues
from service.commit.session_cache import SessionCache
from service.learners.dexp3 import Dexp3Spec
from service.models.specification import Specification
from service.models.stored import Stored
from service.serialization import state as codec
from service.sessions.operations import Act
from service.settings import Settings
from service.store.base import NewSession, StoreUnavailableError
from service.store.instrumented import InstrumentedStore
from service.store.memory import MemoryStore
from service.telemetry import tracing_config
from service.telemetry.metrics import Metrics
from service.telemetry.tracing import Spans
from tests.support.collector import Collector, attributes
from tests.support.http import http_client
from tests.support.running import RunningService, create
from tests.support.waiting import wait_until

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


@pytest.fixture
async def make_traced():
    async with AsyncExitStack() as stack:

        async def make(store=None, **settings):
            exporter = InMemorySpanExporter()
            provider = TracerProvider(shutdown_on_exit=False)
            provider.add_span_processor(SimpleSpanProcessor(exporter))
            app = create_app(Settings(**settings), store or MemoryStore(), spans=Spans(provider))
            await stack.enter_async_context(app.router.lifespan_context(app))
            transport = httpx.ASGITransport(app, raise_app_exceptions=False)
            client = await stack.enter_async_context(httpx.AsyncClient(transport=transport, base_url="http://a"))
            return Traced(client, exporter)

        yield make


@pytest.fixture
async def traced(make_traced):
    return await make_traced()


class SlowStore(MemoryStore):
    """A store whose commits wait until they are let through."""

    def __init__(self):
        super().__init__()
        self.open = asyncio.Event()
        self.entered = asyncio.Event()

    async def commit(self, commit):
        self.entered.set()
        await self.open.wait()
        return await super().commit(commit)


class DeadStore(MemoryStore):
    async def load(self, session_id):
        raise StoreUnavailableError("no answer from redis://user:hunter22@host")


class FaultyStore(MemoryStore):
    async def load(self, session_id):
        raise RuntimeError("redis://user:hunter22@host is odd")


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


async def test_the_store_calls_of_a_request_are_its_children(traced):
    create = await traced.span("POST", "/v1/sessions", json=ARMS)
    children = [span for span in traced.spans() if span.parent == create.context]
    act = await traced.span("POST", "/v1/sessions/s-1/act")
    (commit,) = traced.spans("store commit")

    assert [child.name for child in children] == ["store create", "store load"]
    assert commit.parent == act.context
    assert commit.kind is SpanKind.CLIENT
    assert dict(commit.attributes) == {
        "db.operation.name": "commit",
        "bandit.requests": 1,
        "bandit.outcome": "committed",
    }


async def test_one_commit_for_many_requests_belongs_to_the_first_and_is_linked_to_the_others():
    store, exporter, provider = SlowStore(), InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    stored = Stored.of(Specification(learner=Dexp3Spec(n_arms=3), seed=1))
    run = stored.start()
    await store.create(NewSession("s", "first", stored.encode(), codec.encode(run.ledger, run.state)))
    traced = InstrumentedStore(store, Metrics(labels()), Spans(provider))
    queues = SessionQueues(Committer(traced, SessionCache(1)), max_queue=10)
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
    span = await traced.span("GET", "/livez", headers={"traceparent": f"00-{TRACE}-{CALLER}-01"})

    assert f"{span.context.trace_id:032x}" == TRACE
    assert f"{span.parent.span_id:016x}" == CALLER
    assert span.name == "GET /livez"


@pytest.mark.parametrize("parent", ["", "00-0-0-01", f"00-{'0' * 32}-{CALLER}-01", "x" * 10_000, "\u00e9"])
async def test_a_caller_that_names_no_trace_begins_one(traced, parent):
    span = await traced.span("GET", "/livez", headers={"traceparent": parent.encode()})

    assert span.parent is None


async def test_a_caller_that_does_not_sample_gets_no_spans(traced):
    await traced.client.get("/livez", headers={"traceparent": f"00-{TRACE}-{CALLER}-00"})

    assert traced.spans() == []


async def test_names_of_spans_come_from_the_routes_alone(traced):
    for number in range(50):
        await traced.client.get(f"/v1/sessions/s{number}?cursor=hunter{number}")
        await traced.client.get(f"/nowhere/{number}?api_key=hunter{number}")
        await traced.client.request(f"METHOD{number}", "/livez")

    told = repr([(span.name, dict(span.attributes), span.events) for span in traced.spans()])
    assert {span.name for span in traced.spans()} == {"GET /v1/sessions/{session_id}", "HTTP"}
    assert "hunter" not in told
    assert "nowhere" not in told
    assert "METHOD" not in told


@pytest.mark.parametrize(
    ("store", "status", "kind"), [(DeadStore, 503, "StoreUnavailableError"), (FaultyStore, 500, "RuntimeError")]
)
async def test_a_failure_is_told_without_its_text(make_traced, store, status, kind):
    traced = await make_traced(store())

    span = await traced.span("GET", "/v1/sessions/s-1")
    (call,) = traced.spans("store load")

    assert span.status.status_code is call.status.status_code is StatusCode.ERROR
    assert (span.attributes["http.response.status_code"], span.attributes["error.type"]) == (status, str(status))
    assert call.attributes["error.type"] == kind
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


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://a"}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://a"}, True),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, True),
        ({"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://a"}, False),
        ({"OTEL_SDK_DISABLED": "true", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://a"}, False),
        ({"OTEL_SERVICE_NAME": "shop"}, False),
    ],
)
def test_the_standard_variables_switch_them_on(variables, expected):
    assert tracing_config.is_requested(variables) is expected


@pytest.mark.processes
@pytest.mark.parametrize(
    "variables",
    [{"OTEL_TRACES_EXPORTER": "zipkin"}, {"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}],
)
def test_what_cannot_be_had_is_said_once_and_the_service_runs(tmp_path, variables):
    flags = ("--store-url", "redis://127.0.0.1:1", "--workers", "2")
    with RunningService(tmp_path, *flags, environment=variables) as service:
        with http_client(service.url) as client:
            assert client.get("/livez").status_code == 200
        assert service.stop() == 0
    assert len([message for message in service.messages() if message.startswith("no traces: OTEL_")]) == 1


@pytest.mark.processes
def test_a_variable_without_sense_does_not_keep_the_service_from_running(tmp_path):
    odd = {"OTEL_TRACES_EXPORTER": "otlp", "OTEL_BSP_MAX_QUEUE_SIZE": "0"}
    with RunningService(tmp_path, "--store-url", "memory://", environment=odd) as service:
        service.wait_ready()
        assert service.stop() == 0
    assert "no traces: a variable of OpenTelemetry (OTEL_...) is invalid" in service.messages()


def test_headers_of_the_collector_may_stand_in_a_file(tmp_path, caplog):
    (tmp_path / "headers").write_text("authorization=Bearer%20hunter22\n")
    environment = {
        "OTEL_TRACES_EXPORTER": "otlp",
        "OTEL_EXPORTER_OTLP_HEADERS_FILE": str(tmp_path / "headers"),
        "OTEL_EXPORTER_OTLP_TRACES_HEADERS_FILE": str(tmp_path / "missing"),
    }

    assert tracing_config.open_traces(environment) is None
    assert environment["OTEL_EXPORTER_OTLP_HEADERS"] == "authorization=Bearer%20hunter22"
    assert "no traces: OTEL_EXPORTER_OTLP_TRACES_HEADERS_FILE can't be read: No such file" in caplog.text


@pytest.mark.slow
def test_without_the_variables_nothing_of_it_is_imported():
    program = """
import sys, service.server.worker
service.telemetry.tracing_config.open_traces({})
print([name for name in sys.modules if name.startswith(("opentelemetry.exporter", "opentelemetry.sdk.trace"))])
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert ended.stdout == "[]\n"


@pytest.mark.processes
def test_without_the_extra_that_is_said_and_the_service_runs(tmp_path):
    missing = tmp_path / "missing"
    missing.mkdir()
    (missing / "sitecustomize.py").write_text(
        "import importlib.metadata as metadata\n"
        "find = metadata.version\n"
        "def version(name):\n"
        "    if name.startswith('opentelemetry-exporter'):\n"
        "        raise metadata.PackageNotFoundError(name)\n"
        "    return find(name)\n"
        "metadata.version = version\n"
    )
    variables = {"OTEL_TRACES_EXPORTER": "otlp", "PYTHONPATH": str(missing)}
    with RunningService(tmp_path, "--store-url", "memory://", environment=variables) as service:
        service.wait_ready()
        assert service.stop() == 0
    assert service.messages().count("no traces: install the extra otel") == 1


@pytest.mark.slow
@pytest.mark.parametrize("compression", [pytest.param("none", marks=pytest.mark.processes), "gzip"])
def test_a_collector_gets_the_spans_of_all_workers_at_the_latest_at_a_stop(tmp_path, compression):
    """An hour between batches: what comes, comes as the service stops."""
    with Collector() as collector:
        variables = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
            "OTEL_EXPORTER_OTLP_COMPRESSION": compression,
            "OTEL_BSP_SCHEDULE_DELAY": "3600000",
            "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment.name=test",
        }
        with RunningService(tmp_path, "--workers", "2", environment=variables) as service:
            workers = set(service.workers(2))
            with service.client() as client:
                session = create(client)
            for _ in range(64):
                with http_client(service.url) as client:
                    assert client.post(f"/v1/sessions/{session}/act").status_code == 200
            assert collector.bodies == []
            assert service.stop() == 0
        sent = list(collector.resources())

    assert {resource["process.pid"] for resource, _ in sent} == workers
    assert {resource["service.name"] for resource, _ in sent} == {"delayed-bandits"}
    assert {resource["deployment.environment.name"] for resource, _ in sent} == {"test"}
    acts = {span.span_id for span in collector.spans() if span.name == ACT}
    assert len(acts) == 64
    assert len([span for span in collector.spans() if span.parent_span_id in acts]) >= 64
    assert session in {attributes(span).get("bandit.session") for span in collector.spans()}


@pytest.mark.processes
def test_spans_come_while_it_runs_also_of_calls_that_fail(tmp_path, own_redis_server):
    with Collector() as collector:
        variables = {
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": f"{collector.url}/v1/traces",
            "OTEL_SERVICE_NAME": "shop",
            "OTEL_BSP_SCHEDULE_DELAY": "50",
            "BANDIT_STORE_URL": own_redis_server.url,
        }
        with RunningService(tmp_path, environment=variables) as service, service.client() as client:
            create(client)
            wait_until(lambda: any(span.name == "store create" for span in collector.spans()))
            own_redis_server.close()
            assert client.post("/v1/sessions/s/act").status_code == 503
            wait_until(lambda: any(span.status.code == 2 for span in collector.spans()))

    assert {resource["service.name"] for resource, _ in collector.resources()} == {"shop"}


@pytest.mark.processes
def test_a_collector_that_is_away_is_told_once_and_harms_nothing(tmp_path):
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        variables = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{nobody.getsockname()[1]}",
            "OTEL_EXPORTER_OTLP_TIMEOUT": "0.1",
            "OTEL_BSP_SCHEDULE_DELAY": "10",
            "OTEL_BSP_MAX_QUEUE_SIZE": "4",
            "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "2",
        }
        with RunningService(tmp_path, "--store-url", "memory://", environment=variables) as service:
            with service.client() as client:
                session = create(client)
                told = "traces can't be delivered, and are dropped"
                wait_until(lambda: client.get("/livez").is_success and told in service.messages())
                for _ in range(200):
                    assert client.post(f"/v1/sessions/{session}/act").status_code == 200
            assert service.stop() == 0
    about_traces = [message for message in service.messages() if "trace" in message.lower() or "span" in message]
    assert about_traces[0] == told
    assert len(about_traces) <= 2


@pytest.mark.processes
def test_a_collector_that_hangs_does_not_hold_a_stop(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        variables = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{silent.getsockname()[1]}",
            "OTEL_EXPORTER_OTLP_TIMEOUT": "3600",
        }
        with RunningService(tmp_path, "--store-url", "memory://", environment=variables) as service:
            service.wait_ready()
            assert service.stop() == 0
    assert "the last traces could not be delivered in time" in service.messages()
