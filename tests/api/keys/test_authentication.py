"""API keys: who gets in, and that no secret is seen."""

import json
import os
from pathlib import Path

import httpx
import pytest

from service.server.listeners import is_loopback
from service.settings import SecretText
from tests.support.api_keys import ADMIN, CLIENT, KEYS, bearer
from tests.support.connections import answers, connected, request
from tests.support.running import RunningService, create


@pytest.mark.parametrize(
    "headers",
    [
        {},
        bearer("wrong-0123456789abcdef"),
        bearer(""),
        {"Authorization": f"Basic {ADMIN}"},
        {"Authorization": ADMIN},
        {"X-API-Key": "wrong-0123456789abcdef"},
        {"X-API-Key": CLIENT, **bearer(ADMIN)},
        [("X-API-Key", ADMIN), ("X-API-Key", CLIENT)],
    ],
)
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v1/sessions/shop-1/act"),
        ("GET", "/v1/sessions"),
        ("GET", "/metrics"),
        ("GET", "/docs"),
        ("GET", "/docs-assets/swagger-ui.css"),
        ("GET", "/openapi.json"),
        ("GET", "/nowhere"),
    ],
)
async def test_without_a_valid_key_nobody_gets_in(client, problem, method, path, headers):
    answer = problem(await client.request(method, path, headers=headers), 401, "unauthorized")

    assert answer.headers["www-authenticate"].startswith("Bearer ")
    detail = answer.json()["detail"]
    assert "more than one" in detail or "`X-API-Key: <key>` or as `Authorization: Bearer <key>`" in detail
    assert "0123456789abcdef" not in answer.text


@pytest.mark.parametrize("headers", [bearer(CLIENT), {"X-API-Key": CLIENT}, {"Authorization": f"bearer  {CLIENT}"}])
async def test_a_key_is_taken_from_either_header(client, headers):
    assert (await client.post("/v1/sessions/other/act", headers=headers)).status_code == 200


@pytest.mark.parametrize("path", ["/livez", "/readyz"])
async def test_health_checks_need_no_key(client, path):
    assert (await client.get(path)).status_code == 200
    assert (await client.head(path)).status_code == 200


async def test_settings_open_metrics_and_docs(make_client):
    client = await make_client(api_keys=SecretText(json.dumps(KEYS)), open_metrics=True, open_docs=True)

    for path in ("/metrics", "/docs", "/openapi.json", "/docs-assets/swagger-ui.css"):
        assert (await client.get(path)).status_code == 200
    assert (await client.get("/v1/sessions")).status_code == 401


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
    ],
)
def test_loopback(host, loopback):
    assert is_loopback(host) is loopback


@pytest.mark.processes
def test_an_open_address_without_keys_is_warned_about(tmp_path):
    with RunningService(tmp_path, "--store-url", "memory://", "--host", "0.0.0.0") as service:
        service.wait_ready()
        assert any(message.startswith("NO API KEYS, and 0.0.0.0") for message in service.messages())


def test_keys_work_in_processes_and_are_seen_nowhere(tmp_path):
    environment = {"BANDIT_API_KEYS": json.dumps(KEYS)}
    with (
        RunningService(tmp_path, "--host", "0.0.0.0", "--log-sample", "1", environment=environment) as service,
        httpx.Client(base_url=service.url.replace("0.0.0.0", "127.0.0.1"), timeout=30) as client,
    ):
        service.workers()
        for worker in service.workers():
            assert b"0123456789abcdef" not in Path(f"/proc/{worker}/environ").read_bytes()
        client.headers = bearer(ADMIN)
        path = f"/v1/sessions/{create(client)}"
        assert client.post(f"{path}/act").status_code == 200
        del client.headers["Authorization"]
        refused = [
            client.post(
                f"{path}/feedback", content=os.urandom(100_000), headers={"X-API-Key": "wrong-0123456789abcdef"}
            )
            for _ in range(3)
        ]
        assert [answer.status_code for answer in refused] == [401] * 3
        metrics = client.get("/metrics", headers=bearer(ADMIN)).text
        assert service.stop() == 0
        log = service.text()

    assert '"api_key": "ops"' in log
    assert "NO API KEYS" not in log
    assert "0123456789abcdef" not in log + metrics + "".join(answer.text for answer in refused)


@pytest.mark.processes
def test_space_around_a_header_is_no_part_of_a_key(tmp_path):
    keys = {"BANDIT_API_KEYS": json.dumps(KEYS)}
    with (
        RunningService(tmp_path, "--store-url", "memory://", environment=keys) as service,
        connected(service) as raw,
    ):
        for header in (f"X-API-Key: {ADMIN}\t", f"X-API-Key:\t {ADMIN} \t ", f"Authorization:\tBearer {ADMIN}\t"):
            raw.sendall(request("/v1/sessions", headers=f"{header}\r\n".encode(), method="GET"))
            assert [answer.status for answer in answers(raw, 1)] == [200], header


@pytest.mark.processes
def test_bad_keys_end_the_start(tmp_path):
    with RunningService(tmp_path, environment={"BANDIT_API_KEYS": "[{}]"}) as service:
        assert service.process.wait(30) == 2
        assert "service: --api-keys (BANDIT_API_KEYS): 0.name: Field required" in service.text()


async def test_the_document_tells_how_keys_are_sent(client, make_client):
    keyed = (await client.get("/openapi.json", headers=bearer(ADMIN))).json()
    free = (await (await make_client()).get("/openapi.json")).json()

    assert keyed["security"] == [{"bearer": []}, {"header": []}]
    assert {} in free["security"]
    for method in ("get", "head"):
        assert keyed["paths"]["/livez"][method]["security"] == []
    assert "401" in keyed["paths"]["/v1/sessions"]["post"]["responses"]
