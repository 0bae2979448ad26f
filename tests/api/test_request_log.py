"""Every request has its id and its line in the log, which says how it ended, and holds no secret."""

import json
import os
import re

import pytest

from service.settings import SecretText
from service.store import open_store
from service.store.base import StoreOptions
from service.store.memory import MemoryStore
from service.telemetry.logs import MAX_FIELD_CHARS
from tests.support.api_keys import ADMIN, CLIENT, KEYS
from tests.support.connections import answers, connected
from tests.support.http import http_client
from tests.support.running import RunningService
from tests.support.waiting import wait_until


async def test_a_line_tells_of_a_request(make_client, lines):
    client = await make_client(log_sample=1)
    await client.post("/v1/sessions", json={"session_id": "jokes", "learner": {"kind": "dexp3", "n_arms": 3}})
    lines()
    await client.post("/v1/sessions/jokes/act", headers={"X-Request-ID": "mine"})
    (line,) = lines()

    assert 0 < line.pop("duration_ms") < 60_000
    assert line.pop("time")
    assert line.pop("pid") == os.getpid()
    named = {"level": "info", "logger": "service.requests", "message": "request", "request_id": "mine"}
    asked = {"method": "POST", "route": "/v1/sessions/{session_id}/act", "status": 200}
    assert line == named | asked | {"session": "jokes", "client": "127.0.0.1"}


async def test_addresses_of_clients_can_be_left_out(make_client, lines):
    await (await make_client(log_sample=1, log_clients=False)).get("/livez")

    assert "127.0.0.1" not in json.dumps(lines())


ARMS = {"kind": "dexp3", "arms": ["a", "b"]}
SESSION, CREATION, OTHER = "/v1/sessions/{session_id}", "/v1/sessions", "other"


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "route", "changed"),
    [
        ("POST", "", {"session_id": "s", "learner": ARMS}, 200, CREATION, None),
        ("POST", "", {"session_id": "s", "learner": {"kind": "dexp3", "n_arms": 2}}, 409, CREATION, None),
        ("POST", "", {"session_id": "s", "events": [0] * 10_001}, 422, CREATION, None),
        ("POST", "/import", {"session_id": "s", "format": 7}, 422, "/v1/sessions/import", None),
        ("PATCH", "/s", {"idle_ttl_seconds": 99, "expiry": None}, 200, SESSION, ["idle_ttl_seconds", "expiry"]),
        ("PATCH", "/s/arms", {"add": ["c"], "remove": ["a"]}, 200, f"{SESSION}/arms", ["add", "remove"]),
        ("PUT", "/s/arms", {"arms": ["a", "d"]}, 200, f"{SESSION}/arms", ["arms"]),
        ("PUT", "/s", {}, 405, SESSION, None),
        ("GET", "/s/nothing", None, 404, OTHER, None),
        ("DELETE", "/s", None, 204, SESSION, None),
    ],
)
async def test_a_line_names_session_and_changes(make_client, lines, method, path, body, status, route, changed):
    client = await make_client(api_keys=SecretText(json.dumps(KEYS)))
    await client.post("/v1/sessions", json={"session_id": "s", "learner": ARMS}, headers={"X-API-Key": ADMIN})
    for key in ("", CLIENT, ADMIN):
        answer = await client.request(method, f"/v1/sessions{path}", json=body, headers={"X-API-Key": key})
    shown = [(line.get("session"), line["route"], line.get("changed")) for line in lines()[1:]]

    assert answer.status_code == status
    # A key is asked for before the body is read.
    named = "s" if path.startswith("/s") else None
    assert shown == [(named, route, None), (named, route, None), ("s", route, changed)]


async def test_the_line_of_a_creation_names_the_session_that_the_service_named(client, lines):
    made = (await client.post("/v1/sessions", json={"learner": ARMS})).json()["session_id"]
    key = {"Idempotency-Key": "k"}
    for _ in range(2):
        await client.patch(f"/v1/sessions/{made}", json={"idle_ttl_seconds": 99}, headers=key)

    told = [(line["session"], line.get("changed")) for line in lines()]
    assert told == [(made, None), (made, ["idle_ttl_seconds"]), (made, None)]


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

    told = (answer.status_code, answer.json()["code"])
    assert (line["status"], line["code"]) == told == (answer.status_code, code)
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
        *((f"00-{trace}-{'cd' * 8}-01", None) for trace in ("00" * 16, "AB" * 16, "ab" * 17)),
        ("forged", None),
    ],
)
async def test_the_line_names_the_trace_that_the_client_is_in(make_client, lines, parent, trace):
    await (await make_client(log_sample=1)).get("/livez", headers={"traceparent": parent})

    assert [line.get("trace_id") for line in lines()] == [trace]


@pytest.mark.parametrize(("method", "logged"), [("GET", "GET"), ("DELETE", "DELETE"), ("BREW", "other")])
async def test_a_request_without_a_route_is_logged_with_its_method(client, lines, method, logged):
    await client.request(method, "/nowhere")
    (line,) = lines()

    assert (line["method"], line["route"], line["status"]) == (logged, "other", 404)


async def test_successes_of_hot_routes_are_sampled_and_errors_are_not(make_client, lines):
    client = await make_client(log_sample=0)
    await client.post("/v1/sessions", json={"session_id": "jokes", "learner": {"kind": "dexp3", "n_arms": 3}})
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
        *((trusted, FORWARDED, "127.0.0.1") for trusted in ("", "10.0.0.0/8")),
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

    errors = [(line["code"], line["client"]) for line in requests if line["status"] > 399]
    assert errors[-2:] == [("not_found", client), ("bad_request", "127.0.0.1")]


PASSWORD = "hunter22andmore"


async def test_refusals_of_keys_have_them_too(make_client, lines):
    keys = json.dumps([{"name": "shop", "role": "client", "key": PASSWORD.ljust(16, "x")}])
    client = await make_client(api_keys=SecretText(keys))
    await client.get("/v1/sessions", headers={"X-API-Key": "wrong-0123456789ab"})
    await client.get("/v1/sessions", headers={"X-API-Key": PASSWORD.ljust(16, "x")})
    shown = lines()

    assert [line["code"] for line in shown] == ["unauthorized", "forbidden"]
    assert all(line["reason"] for line in shown)
    assert not re.search(f"wrong-0|{PASSWORD}", json.dumps(shown))


@pytest.mark.parametrize(
    ("query", "body"),
    [
        ("", {PASSWORD: 1}),
        ("", {"learner": {"kind": "dexp3", "n_arms": 3, PASSWORD: 1}}),
        ("", {"learner": {"kind": PASSWORD}}),
        ("", {"learner": {"kind": "dexp3", "n_arms": PASSWORD}}),
        (f"?{PASSWORD}={PASSWORD}", {}),
    ],
)
async def test_a_reason_has_no_text_of_the_client(client, lines, query, body):
    await client.post(f"/v1/sessions{query}", json=body)
    (line,) = lines()

    assert line["code"] == "invalid_request"
    assert PASSWORD not in json.dumps(line)


async def test_whatever_a_request_holds_its_line_is_short_and_one(client, lines):
    long = "é\n{}\u202e" * 500
    await client.post(f"/v1/sessions/{'a%0A{}' * 1000}/act", content=b"\xff" * 100)
    await client.get(f"/nowhere?{'x' * 5000}", headers={"User-Agent": "y" * 5000})
    await client.post("/v1/sessions/a/feedback", json={long: long})
    shown = lines()

    assert len(shown) == 3
    assert len(shown[0]["session"]) == MAX_FIELD_CHARS
    for line in shown:
        text = json.dumps(line)
        assert text.isascii()
        assert "\n" not in text
        assert len(text) < 1000


@pytest.mark.processes
def test_a_thousand_bad_bodies_make_a_thousand_bounded_lines(tmp_path):
    body = b'{"arm": "' + b"\\n x" * 500_000
    with RunningService(tmp_path, "--store-url", "memory://") as service, service.client() as client:
        before = len(service.text().splitlines())
        for number in range(1000):
            content = body if number % 100 == 0 else b'{"arm": "\n'
            assert client.post("/v1/sessions/a%0Aforged/feedback", content=content).status_code in {413, 415, 422}
        lines = service.text().splitlines()[before:]

    requests = [json.loads(line) for line in lines]
    assert len(requests) == 1000
    assert all(len(line) < 500 for line in lines)
    assert {line["session"] for line in requests} == {"a\nforged"}


@pytest.mark.processes
@pytest.mark.parametrize("password", [PASSWORD, "wrong" + PASSWORD])
def test_the_stores_password_is_seen_nowhere(tmp_path, own_redis_server, password):
    own_redis_server.client.config_set("requirepass", PASSWORD)
    url = own_redis_server.url.replace("://", f"://:{password}@")
    with (
        RunningService(tmp_path, "--log-level", "debug", "--log-sample", "1", "--store-url", url) as service,
        http_client(service.url) as client,
    ):
        service.workers()
        right = password == PASSWORD
        wait_until(lambda: client.get("/readyz").status_code == (200 if right else 503))
        answers = [
            client.get("/readyz"),
            client.post("/v1/sessions", json={"learner": {"kind": "dexp3", "n_arms": 3}}),
            client.get("/v1/sessions"),
            client.post("/v1/sessions/a/act"),
            client.get("/metrics"),
            client.get("/openapi.json"),
        ]
        assert answers[1].status_code == (201 if right else 503)
        own_redis_server.client.config_set("requirepass", "")
        service.stop()
        seen = service.text() + "".join(answer.text + str(answer.headers) for answer in answers)

    assert PASSWORD not in seen
    assert not list(tmp_path.glob("**/*.db"))


async def test_an_unknown_label_is_told_to_the_client_and_kept_from_the_log(client, create, lines):
    await create(session_id="s", learner={"kind": "dexp3", "arms": ["a", "b"]})
    lines()
    answer = await client.post("/v1/sessions/s/feedback", json={"label": f"{PASSWORD} é".ljust(60, "x"), "loss": 0})
    (line,) = lines()

    detail = answer.json()["detail"]
    assert "GET /v1/sessions/{session_id}/arms lists them" in detail
    assert detail.endswith("'" + f"{PASSWORD} \\xe9".ljust(43, "x") + "'")
    assert PASSWORD not in json.dumps(line)
    assert "no arm with this label" in line["reason"]


OURS = re.compile(r"[0-9a-f]{16}-[0-9a-f]+")


@pytest.mark.parametrize("given", ["a", "x" * 128, "2f:9 (b)", "~!"])
async def test_a_sane_request_id_is_taken_and_sent_back(client, given):
    assert (await client.get("/livez", headers={"X-Request-ID": given})).headers["x-request-id"] == given


@pytest.mark.parametrize("given", [None, "", "x" * 129, "a\tb", "é".encode(), b"a\x1b[31mb", " "])
async def test_otherwise_one_is_made(client, given):
    headers = {} if given is None else {"X-Request-ID": given}
    first, second = [(await client.get("/livez", headers=headers)).headers["x-request-id"] for _ in range(2)]

    assert OURS.fullmatch(first)
    assert OURS.fullmatch(second)
    assert first != second
