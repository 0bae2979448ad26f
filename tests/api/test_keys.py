"""API keys: who gets in, what a role and a key bound, keys that change meanwhile, and that no secret is seen."""

import asyncio
import contextlib
import itertools
import json
import os
import signal
import time
from pathlib import Path

import httpx
import pytest

from service import api_keys
from service.server.pool import is_loopback
from service.settings import SecretText, Settings
from service.store.memory import MemoryStore
from tests.support.api_keys import ADMIN, CLIENT, KEYS, SETUP, SHOP, bearer
from tests.support.connections import answers, connected, request
from tests.support.http import http_client
from tests.support.one_session import pages
from tests.support.problems import assert_problem
from tests.support.running import RunningService, create
from tests.support.waiting import SECONDS, wait_until

JSON = {"Content-Type": "application/json"}
LEARNER = {"kind": "dexp3", "n_arms": 3}


@pytest.fixture
async def client(make_client):
    client = await make_client(api_keys=SecretText(json.dumps(KEYS)))
    for session_id in ("shop-1", "other"):
        body = {"session_id": session_id, "learner": LEARNER}
        answer = await client.post("/v1/sessions", json=body, headers=bearer(ADMIN))
        assert answer.status_code == 201
    return client


@pytest.mark.parametrize(
    "headers",
    [
        *({}, bearer("wrong-0123456789abcdef"), bearer(""), {"X-API-Key": "wrong-0123456789abcdef"}),
        *({"Authorization": f"Basic {ADMIN}"}, {"Authorization": ADMIN}),
        {"X-API-Key": CLIENT, **bearer(ADMIN)},
        [("X-API-Key", ADMIN), ("X-API-Key", CLIENT)],
    ],
)
@pytest.mark.parametrize(
    ("method", "path"),
    [
        *(("POST", "/v1/sessions/shop-1/act"), ("GET", "/v1/sessions"), ("GET", "/metrics"), ("GET", "/docs")),
        *(("GET", "/docs-assets/swagger-ui.css"), ("GET", "/openapi.json"), ("GET", "/nowhere")),
    ],
)
async def test_without_a_valid_key_nobody_gets_in(client, method, path, headers):
    answer = assert_problem(await client.request(method, path, headers=headers), 401, "unauthorized")

    assert answer.headers["www-authenticate"].startswith("Bearer ")
    detail = answer.json()["detail"]
    assert "more than one" in detail or "`X-API-Key: <key>` or as `Authorization: Bearer <key>`" in detail
    assert "0123456789abcdef" not in answer.text


@pytest.mark.parametrize("headers", [bearer(CLIENT), {"X-API-Key": CLIENT}, {"Authorization": f"bearer  {CLIENT}"}])
async def test_a_key_is_taken_from_either_header(client, headers):
    assert (await client.post("/v1/sessions/other/act", headers=headers)).status_code == 200


async def test_settings_open_metrics_and_docs(make_client):
    client = await make_client(api_keys=SecretText(json.dumps(KEYS)), open_metrics=True, open_docs=True)

    for path in ("/metrics", "/docs", "/openapi.json", "/docs-assets/swagger-ui.css"):
        assert (await client.get(path)).status_code == 200
    assert (await client.get("/v1/sessions")).status_code == 401


@pytest.mark.parametrize(
    ("host", "loopback"),
    [*((host, True) for host in ("127.0.0.1", "127.9.9.9", "::1", "localhost")), ("0.0.0.0", False), ("::", False)],
)
def test_loopback(host, loopback):
    assert is_loopback(host) is loopback


@pytest.mark.processes
def test_an_open_address_without_keys_is_warned_about(tmp_path):
    with RunningService(tmp_path, "--store-url", "memory://", "--host", "0.0.0.0") as service:
        service.wait_ready()
        assert any(message.startswith("NO API KEYS, and 0.0.0.0") for message in service.messages())


@pytest.mark.processes
def test_keys_work_in_processes_and_are_seen_nowhere(tmp_path):
    environment = {"BANDIT_API_KEYS": json.dumps(KEYS)}
    flags = ("--host", "0.0.0.0", "--log-sample", "1", "--store-url", "memory://")
    with (
        RunningService(tmp_path, *flags, environment=environment) as service,
        httpx.Client(base_url=service.url.replace("0.0.0.0", "127.0.0.1"), timeout=30) as client,
    ):
        service.workers()
        for worker in service.workers():
            assert b"0123456789abcdef" not in Path(f"/proc/{worker}/environ").read_bytes()
        client.headers = bearer(ADMIN)
        path = f"/v1/sessions/{create(client)}"
        assert client.post(f"{path}/act").status_code == 200
        del client.headers["Authorization"]
        wrong = {"content": os.urandom(100_000), "headers": {"X-API-Key": "wrong-0123456789abcdef"}}
        refused = [client.post(f"{path}/feedback", **wrong) for _ in range(3)]
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


async def test_the_document_tells_how_keys_are_sent(client, document):
    keyed = (await client.get("/openapi.json", headers=bearer(ADMIN))).json()

    assert keyed["security"] == [{"bearer": []}, {"header": []}]
    assert {} in document["security"]
    for method in ("get", "head"):
        assert keyed["paths"]["/livez"][method]["security"] == []
    assert "401" in keyed["paths"]["/v1/sessions"]["post"]["responses"]


@pytest.mark.parametrize(
    ("method", "path", "key"),
    [
        ("GET", "/v1/sessions/other", SHOP),
        *(("POST", f"/v1/sessions/{name}/act", SHOP) for name in ("other", "%6Fther")),
        *(("DELETE", "/v1/sessions/other", SETUP), ("PATCH", "/v1/sessions/other/arms", SETUP)),
    ],
)
async def test_sessions_outside_the_prefix_do_not_exist(client, method, path, key):
    there = assert_problem(await client.request(method, path, headers=bearer(key)), 404, "unknown_session")
    missing = path.replace("other", "shop-missing").replace("%6Fther", "shop-missing")
    body = {"add": ["a"]} if method == "PATCH" else None
    nowhere = await client.request(method, missing, json=body, headers=bearer(key))

    assert there.json() == nowhere.json()


async def test_a_list_and_its_cursors_show_nothing_outside_the_prefix(client):
    for number in range(3):
        for prefix in ("a", "shop-", "shoq", "z"):
            body = {"session_id": f"{prefix}{number}x", "learner": LEARNER}
            await client.post("/v1/sessions", json=body, headers=bearer(ADMIN))
    seen = []
    async for page in pages(client, "/v1/sessions", bearer(SETUP), limit=1):
        seen += [session["session_id"] for session in page["sessions"]]
        assert page["next_cursor"] is None or page["next_cursor"].endswith(seen[-1])

    assert seen == ["shop-0x", "shop-1", "shop-1x", "shop-2x"]
    for other in ("other", "shop-1\n", "\nshop-1", "shop-é", "shop-1 ", f"shop-{'a' * 124}", ""):
        answer = await client.get("/v1/sessions", params={"cursor": f"after~{other}"}, headers=bearer(SETUP))
        assert answer.status_code == 422, other


async def test_sessions_are_created_within_the_prefix_and_the_limits(client):
    async def post(**body):
        return await client.post("/v1/sessions", json={"learner": LEARNER} | body, headers=bearer(SETUP))

    assert_problem(await post(session_id="mine"), 403, "forbidden")
    assert_problem(await post(learner={"kind": "dexp3", "n_arms": 5}), 422, "invalid_request")
    answer = await post()
    assert answer.status_code == 201
    assert answer.json()["session_id"].startswith("shop-")
    assert_problem(await post(), 403, "forbidden")
    assert (await post(session_id="shop-1")).status_code == 200


async def test_arms_are_added_within_the_limit_and_removed_however_many_there_are(client):
    body = {"session_id": "shop-2", "learner": {"kind": "dexp3", "arms": [*"abcdefgh"]}}
    assert (await client.post("/v1/sessions", json=body, headers=bearer(ADMIN))).status_code == 201

    async def change(**body):
        return await client.patch("/v1/sessions/shop-2/arms", json=body, headers=bearer(SETUP))

    assert (await change(remove=["a"])).json()["learner"]["n_arms"] == 7
    assert_problem(await change(remove=["b"], add=["x"]), 422, "invalid_request")
    assert (await change(remove=["b", "c", "d", "e"], add=["x"])).json()["learner"]["n_arms"] == 4
    assert_problem(await change(add=["y"]), 422, "invalid_request")
    await change(remove=["x"])
    assert (await change(add=["y"])).json()["learner"]["n_arms"] == 4


async def test_a_body_is_bounded_by_the_key(client):
    event = {"arm": 0, "loss": 0.5, "event_id": "x" * 80}

    answer = await client.post("/v1/sessions/shop-1/feedback", json=event, headers=bearer(SHOP))
    assert_problem(answer, 413, "payload_too_large")


async def test_idempotency_keys_count_within_an_api_key(client):
    async def act(key):
        return await client.post("/v1/sessions/other/act", headers=bearer(key) | {"Idempotency-Key": "once"})

    first, again, others = await act(CLIENT), await act(CLIENT), await act(ADMIN)

    assert again.content == first.content
    assert others.json()["slot"] == first.json()["slot"] + 1


class DistantStore(MemoryStore):
    """A store whose listings take their time, as those of a server do."""

    async def list(self, cursor, limit, prefix=""):
        page = await super().list(cursor, limit, prefix)
        await asyncio.sleep(0)
        return page


async def test_as_many_sessions_as_a_key_may_have_are_created_however_many_are_asked_for_at_once(make_client):
    client = await make_client(DistantStore(), api_keys=SecretText(json.dumps(KEYS)))
    bodies = [{"session_id": f"shop-{n}", "learner": LEARNER} for n in range(8)]
    asked = [client.post("/v1/sessions", json=body, headers=bearer(SETUP)) for body in bodies]

    answers = await asyncio.gather(*asked)

    assert sorted(answer.status_code for answer in answers) == 2 * [201] + 6 * [403]


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "/v1/sessions/shop-1/act", b"", 200),
        ("POST", "/v1/sessions/shop-1/feedback", b"{", 422),
        ("GET", "/v1/sessions/missing", b"", 404),
        ("GET", "/v1/sessions", b"", 403),
        ("GET", "/v1%2Fsessions", b"", 403),
        ("GET", "/nowhere", b"", 403),
    ],
)
async def test_a_key_has_its_rate_before_all_else_is_checked(make_client, method, path, body, status):
    key = {"name": "slow", "role": "client", "key": OLD, "requests_per_second": 1}
    client = await make_client(api_keys=SecretText(json.dumps([key, KEYS[0]])))
    fields = {"session_id": "shop-1", "learner": LEARNER}
    assert (await client.post("/v1/sessions", json=fields, headers=bearer(ADMIN))).status_code == 201

    async def ask():
        return await client.request(method, path, content=body, headers=bearer(OLD) | JSON)

    assert (await ask()).status_code == status
    assert assert_problem(await ask(), 429, "rate_limited").headers["retry-after"] == "1"
    view = await client.get("/v1/sessions/shop-1", headers=bearer(ADMIN))
    assert view.json()["slot"] == (1 if status == 200 else 0)
    assert (await client.get("/livez", headers=bearer(OLD))).status_code == 200
    assert_problem(await client.get(path, headers=bearer(NEW)), 401, "unauthorized")
    metrics = (await client.get("/metrics", headers=bearer(ADMIN))).text
    assert 'bandit_problems_total{code="rate_limited"} 1.0' in metrics


OLD, NEW = "old-0123456789abcdef", "new-0123456789abcdef"


@pytest.mark.processes
def test_workers_hold_a_rate_together_and_a_new_one_without_a_restart(tmp_path):
    def file_with(rate):
        key = {"name": "slow", "role": "client", "key": OLD, "requests_per_second": rate}
        replace(tmp_path / "keys.json", json.dumps([KEYS[0], key]))

    def served(count):
        """Seconds until so many are served, from an empty bucket on."""
        next(status for status in asked if status == 429)
        began = time.monotonic()
        assert set(itertools.islice(filter(lambda status: status == 200, asked), count)) == {200}
        return time.monotonic() - began

    file_with(20)
    flags = ("--workers", "3", "--api-keys-file", str(tmp_path / "keys.json"))
    with RunningService(tmp_path, *flags) as service, contextlib.ExitStack() as stack:
        service.wait_serving(3)
        headers = {"X-API-Key": OLD}
        clients = [stack.enter_context(http_client(service.url, headers=headers)) for _ in range(12)]
        asked = (client.get("/v1/key").status_code for client in itertools.cycle(clients))
        assert served(40) == pytest.approx(2, rel=0.1)
        file_with(40)
        wait_until(lambda: service.text().count("the API keys have changed") == 3)
        assert served(80) == pytest.approx(2, rel=0.1)


def keys_of(*secrets):
    return json.dumps([{"name": secret[:3], "role": "admin", "key": secret} for secret in secrets])


@pytest.fixture
def file(tmp_path):
    file = tmp_path / "keys.json"
    file.write_text(keys_of(OLD))
    return file


def replace(file, text):
    """As editors and orchestrators do: another file under the same name."""
    other = file.with_suffix(".new")
    other.write_text(text)
    other.replace(file)


async def status(client, key):
    return (await client.get("/v1/sessions", headers={"X-API-Key": key})).status_code


@pytest.fixture(autouse=True)
def _looks_often(monkeypatch):
    monkeypatch.setattr(api_keys, "WATCH_SECONDS", 0.001)


async def eventually(condition):
    async with asyncio.timeout(SECONDS):
        while not await condition():  # noqa: ASYNC110 - of processes and files
            await asyncio.sleep(0.001)


async def test_a_changed_file_is_read_again(make_client, file):
    client = await make_client(api_keys_file=file)
    assert [await status(client, key) for key in (OLD, NEW)] == [200, 401]

    replace(file, keys_of(OLD, NEW))
    await eventually(lambda: _is(client, NEW, 200))
    assert await status(client, OLD) == 200

    replace(file, keys_of(NEW))
    await eventually(lambda: _is(client, OLD, 401))
    assert await status(client, NEW) == 200


async def _is(client, key, expected):
    return await status(client, key) == expected


@pytest.mark.parametrize("text", ["", "[]", "{", '[{"name": "a", "role": "king", "key": "secretsecretsecret"}]'])
async def test_a_file_that_cant_be_used_changes_nothing(make_client, file, caplog, text):
    client = await make_client(api_keys_file=file)
    replace(file, text)

    async def said():
        assert await status(client, OLD) == 200
        return "the API keys stay as they were: --api-keys-file" in caplog.text

    await eventually(said)
    assert "secretsecret" not in caplog.text

    replace(file, keys_of(NEW))
    await eventually(lambda: _is(client, NEW, 200))


async def test_a_file_that_is_removed_changes_nothing(make_client, file, caplog):
    client = await make_client(api_keys_file=file)
    file.unlink()

    async def said():
        return await status(client, OLD) == 200 and "can't be read" in caplog.text

    await eventually(said)
    assert caplog.text.count("can't be read") == 1


async def test_a_worker_that_cant_read_the_file_accepts_no_key(make_client, tmp_path):
    """It may have begun with keys that were taken out of the file since."""
    client = await make_client(api_keys_file=tmp_path / "missing")

    assert await status(client, OLD) == 401
    assert (await client.get("/livez")).status_code == 200


def test_keys_given_as_text_are_not_read_again():
    ring = api_keys.KeyRing(Settings())
    ring.read_again()

    assert ring.keys == ()


@pytest.mark.processes
@pytest.mark.parametrize("how", ["signal", "change"])
def test_every_worker_takes_the_new_keys(tmp_path, file, how):
    flags = ("--workers", "3", "--api-keys-file", str(file))
    with RunningService(tmp_path, *flags) as service:
        service.wait_serving(3)
        assert statuses(service, OLD) == {200}
        kept = file.stat()
        file.write_text(keys_of(NEW))
        if how == "signal":
            os.utime(file, ns=(kept.st_atime_ns, kept.st_mtime_ns))
            service.process.send_signal(signal.SIGHUP)
        wait_until(lambda: (statuses(service, NEW), statuses(service, OLD)) == ({200}, {401}))

        service.process.send_signal(signal.SIGHUP)
        for pid in service.workers(3):
            os.kill(pid, signal.SIGKILL)
        service.wait_serving(6)
        wait_until(lambda: statuses(service, NEW) == {200})
        assert statuses(service, OLD) == {401}
        assert service.stop() == 0, service.text()
    assert OLD not in service.text()
    assert NEW not in service.text()


def statuses(service, key):
    """Of so many fresh connections that each worker has some; none where a connection fails."""
    found = set()
    for _ in range(24):
        with http_client(service.url) as client:
            try:
                found.add(client.get("/v1/sessions", headers={"X-API-Key": key}).status_code)
            except httpx.TransportError:
                return set()
    return found
