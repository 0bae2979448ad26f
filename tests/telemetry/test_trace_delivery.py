"""Whether traces are made, by the standard variables, and how they reach a collector."""

import socket
import subprocess
import sys
from contextlib import ExitStack

import pytest

from service.telemetry import tracing_config
from tests.support.collector import Collector, attributes
from tests.support.http import http_client
from tests.support.running import RunningService, create
from tests.support.waiting import wait_until

ACT = "POST /v1/sessions/{session_id}/act"


def messages_of_a_run(tmp_path, variables):
    """What a service logs with these variables, which starts and stops as ever."""
    with RunningService(tmp_path, "--store-url", "memory://", environment=variables) as service:
        with service.client() as client:
            create(client)
        assert service.stop() == 0
    return service.messages()


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
    messages = messages_of_a_run(tmp_path, {"OTEL_TRACES_EXPORTER": "otlp", "OTEL_BSP_MAX_QUEUE_SIZE": "0"})

    assert "no traces: a variable of OpenTelemetry (OTEL_...) is invalid" in messages


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
        "metadata.version = lambda name: find(name.replace('opentelemetry-exporter', 'missing'))\n"
    )
    messages = messages_of_a_run(tmp_path, {"OTEL_TRACES_EXPORTER": "otlp", "PYTHONPATH": str(missing)})

    assert messages.count("no traces: install the extra otel") == 1


@pytest.mark.slow
@pytest.mark.parametrize("compression", [pytest.param("none", marks=pytest.mark.processes), "gzip"])
def test_a_collector_gets_the_spans_of_all_workers_at_the_latest_at_a_stop(tmp_path, compression):
    """An hour between batches: what comes, comes as the service stops."""
    with Collector() as collector:
        variables = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url, "OTEL_BSP_SCHEDULE_DELAY": "3600000"}
        variables |= {"OTEL_EXPORTER_OTLP_COMPRESSION": compression}
        variables |= {"OTEL_RESOURCE_ATTRIBUTES": "deployment.environment.name=test"}
        with RunningService(tmp_path, "--workers", "2", environment=variables) as service:
            workers = set(service.workers(2))
            service.wait_serving(2)
            with service.client() as client:
                session = create(client)
            with ExitStack() as stack:  # At once: workers share them.
                for _ in range(64):
                    client = stack.enter_context(http_client(service.url))
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
        variables = {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": f"{collector.url}/v1/traces"}
        variables |= {"OTEL_SERVICE_NAME": "shop", "OTEL_BSP_SCHEDULE_DELAY": "50"}
        variables |= {"BANDIT_STORE_URL": own_redis_server.url}
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
                wait_until(lambda: client.get("/metrics").is_success and told in service.messages())
                for _ in range(200):
                    assert client.post(f"/v1/sessions/{session}/act").status_code == 200
            assert service.stop() == 0
    about_traces = [message for message in service.messages() if "trace" in message.lower() or "span" in message]
    assert about_traces[0] == told
    assert len(about_traces) <= 2


@pytest.mark.processes
def test_a_collector_that_hangs_does_not_hold_a_stop(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        variables = {"OTEL_EXPORTER_OTLP_ENDPOINT": url, "OTEL_EXPORTER_OTLP_TIMEOUT": "3600"}
        messages = messages_of_a_run(tmp_path, variables)

    assert "the last traces could not be delivered in time" in messages
