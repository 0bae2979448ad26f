"""What no line of the log holds: keys, the store's password, texts of clients, and more than some bytes."""

import json
import re

import pytest

from service.settings import SecretText
from service.telemetry.logs import MAX_FIELD_CHARS
from tests.support.http import http_client
from tests.support.running import RunningService
from tests.support.waiting import wait_until

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
            answer = client.post("/v1/sessions/a%0Aforged/feedback", content=content)
            assert answer.status_code in {413, 415, 422}
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


async def test_an_unknown_label_is_told_to_the_client_and_kept_from_the_log(client, lines):
    body = {"session_id": "s", "learner": {"kind": "dexp3", "arms": ["a", "b"]}}
    await client.post("/v1/sessions", json=body)
    lines()
    answer = await client.post("/v1/sessions/s/feedback", json={"label": f"{PASSWORD} é".ljust(60, "x"), "loss": 0})
    (line,) = lines()

    detail = answer.json()["detail"]
    assert "GET /v1/sessions/{session_id}/arms lists them" in detail
    assert detail.endswith("'" + f"{PASSWORD} \\xe9".ljust(43, "x") + "'")
    assert PASSWORD not in json.dumps(line)
    assert "no arm with this label" in line["reason"]
