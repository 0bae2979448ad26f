"""Every request has its line in the log, which says who asked for what and how it ended."""

import json
import os

import pytest

from service.store import open_store
from service.store.base import StoreOptions
from service.store.memory import MemoryStore
from service.telemetry.logs import MAX_FIELD_CHARS
from tests.support.connections import answers, connected
from tests.support.running import RunningService


async def test_a_line_tells_of_a_request(make_client, lines):
    client = await make_client(log_sample=1)
    body = {"session_id": "jokes", "learner": {"kind": "dexp3", "n_arms": 3}}
    await client.post("/v1/sessions", json=body)
    lines()
    await client.post("/v1/sessions/jokes/act", headers={"X-Request-ID": "mine"})
    (line,) = lines()

    assert 0 < line.pop("duration_ms") < 60_000
    assert line.pop("time")
    assert line.pop("pid") == os.getpid()
    assert line == {
        "level": "info",
        "logger": "service.requests",
        "message": "request",
        "request_id": "mine",
        "method": "POST",
        "route": "/v1/sessions/{session_id}/act",
        "status": 200,
        "session": "jokes",
        "client": "127.0.0.1",
    }


@pytest.mark.parametrize(
    ("method", "path", "content", "code", "reason"),
    [
        ("GET", "/nowhere", "", "not_found", "There is no such resource; /docs lists all"),
        ("GET", "/a%2fb", "", "not_found", "There is no such resource; /docs lists all"),
        ("PUT", "/livez", "", "method_not_allowed", "The resource does not offer this method; it offers GET, HEAD"),
        ("GET", "/v1/sessions/none", "", "unknown_session", "There is no session with this id"),
        ("POST", "/v1/sessions", "[]", "invalid_request", "The body must be a JSON object"),
        ("POST", "/v1/sessions", '{"learner": 7}', "invalid_request", "learner: must be a JSON object"),
    ],
)
async def test_the_line_of_an_error_has_its_code_and_reason(client, lines, method, path, content, code, reason):
    answer = await client.request(method, path, content=content, headers={"Content-Type": "application/json"})
    (line,) = lines()

    assert (
        (line["status"], line["code"]) == (answer.status_code, answer.json()["code"]) == (answer.status_code, code)
    )
    assert line["reason"] == reason


async def test_a_fault_has_them_too(make_client, lines, monkeypatch):
    store = MemoryStore()
    monkeypatch.setattr(store, "load", None)
    await (await make_client(store)).get("/v1/sessions/a")
    (line,) = lines()

    assert (line["level"], line["code"]) == ("warning", "internal_error")
    assert line["reason"] == "The service failed to answer"


@pytest.mark.parametrize(
    ("parent", "trace"),
    [
        (f"00-{'ab' * 16}-{'cd' * 8}-01", "ab" * 16),
        (f"cc-{'ab' * 16}-{'cd' * 8}-01-what", "ab" * 16),
        (f"00-{'00' * 16}-{'cd' * 8}-01", None),
        (f"00-{'AB' * 16}-{'cd' * 8}-01", None),
        (f"00-{'ab' * 17}-{'cd' * 8}-01", None),
        ("forged", None),
    ],
)
async def test_the_line_names_the_trace_that_the_client_is_in(make_client, lines, parent, trace):
    client = await make_client(log_sample=1)
    await client.get("/livez", headers={"traceparent": parent})

    assert [line.get("trace_id") for line in lines()] == [trace]


@pytest.mark.parametrize(("method", "logged"), [("GET", "GET"), ("DELETE", "DELETE"), ("BREW", "other")])
async def test_a_request_without_a_route_is_logged_with_its_method(client, lines, method, logged):
    await client.request(method, "/nowhere")
    (line,) = lines()

    assert (line["method"], line["route"], line["status"]) == (logged, "other", 404)


async def test_successes_of_hot_routes_are_sampled_and_errors_are_not(make_client, lines):
    client = await make_client(log_sample=0)
    body = {"session_id": "jokes", "learner": {"kind": "dexp3", "n_arms": 3}}
    await client.post("/v1/sessions", json=body)
    for _ in range(20):
        await client.post("/v1/sessions/jokes/act")
        await client.get("/livez")
        await client.get("/v1/sessions/jokes")
    await client.post("/v1/sessions/jokes/feedback", json={"arm": 9, "loss": 1})

    assert [(line["method"], line["status"]) for line in lines()] == [("POST", 201), ("POST", 422)]


async def test_readiness_is_logged_when_it_changes(make_client, lines, own_redis_server):
    options = StoreOptions(retry_seconds=0.2, connect_seconds=0.3)
    client = await make_client(open_store(own_redis_server.url, options=options), log_sample=0)
    for turn in (lambda: None, own_redis_server.kill, own_redis_server.start):
        turn()
        for _ in range(5):
            await client.get("/readyz")

    assert [(line["route"], line["status"]) for line in lines()] == [("/readyz", 503), ("/readyz", 200)]


FORWARDED = {"X-Forwarded-For": "9.9.9.9, 203.0.113.7, 10.1.2.3"}


@pytest.mark.processes
@pytest.mark.parametrize(
    ("trusted", "headers", "client"),
    [
        ("", FORWARDED, "127.0.0.1"),
        ("10.0.0.0/8", FORWARDED, "127.0.0.1"),
        ("127.0.0.1, 10.0.0.0/8", FORWARDED, "203.0.113.7"),
        ("127.0.0.1", FORWARDED, "10.1.2.3"),
        ("127.0.0.1", {}, "127.0.0.1"),
        ("127.0.0.1", {"X-Forwarded-For": "x" * 5000}, "x" * MAX_FIELD_CHARS),
    ],
)
def test_trusted_proxies_name_the_client(tmp_path, trusted, headers, client):
    flags = ("--store-url", "memory://", "--trusted-proxies", trusted)
    with RunningService(tmp_path, *flags) as service, service.client() as http:
        http.get("/nowhere", headers=headers)
        with connected(service) as connection:
            connection.sendall(b"NONSENSE\r\n\r\n")
            answers(connection, 1)
    requests = [json.loads(line) for line in service.text().splitlines() if '"request_id"' in line]

    assert [(line["code"], line["client"]) for line in requests if line["status"] > 399][-2:] == [
        ("not_found", client),
        ("bad_request", "127.0.0.1"),
    ]
