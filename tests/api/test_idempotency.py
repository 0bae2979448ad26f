"""An Idempotency-Key means the same on every POST and PATCH, whichever process gets it and after a restart."""

import asyncio

import pytest
from fastapi import APIRouter

from service.api.calls import Call, Reply
from service.api.path_operations import CallRoute
from service.api.routes import ROUTES
from service.api.runtime import CLIENTS, access
from service.store import open_store

SESSION = {"session_id": "s", "learner": {"kind": "dexp3", "arms": ["a"]}, "seed": 3}
PATH = "/v1/sessions/s"
KEY = {"Idempotency-Key": "k"}
EVENT = {"label": "a", "loss": 0.25}
CALLS = [
    pytest.param("POST", "/v1/sessions", SESSION | {"session_id": "new"}, {"seed": 4}, id="create"),
    pytest.param("POST", f"{PATH}/act", {}, None, id="act"),
    pytest.param("POST", f"{PATH}/acts", {"count": 3}, {"count": 4}, id="acts"),
    pytest.param("POST", f"{PATH}/feedback", EVENT, {"loss": 0.5}, id="feedback"),
    pytest.param("POST", f"{PATH}/feedbacks", {"events": [EVENT, EVENT]}, {"events": [EVENT]}, id="feedbacks"),
    pytest.param("PATCH", f"{PATH}/arms", {"add": ["b"]}, {"add": ["c"]}, id="arms"),
    pytest.param("PATCH", PATH, {"idle_ttl_seconds": 60}, {"idle_ttl_seconds": 61}, id="session"),
    pytest.param("PUT", f"{PATH}/arms", {"arms": ["a", "b"]}, {"arms": ["a", "c"]}, id="catalogue"),
]


@pytest.mark.parametrize(("method", "path", "body", "other"), CALLS)
async def test_one_key_is_one_application_and_one_answer(make_client, redis_server, method, path, body, other):
    """Ten concurrent callers on two processes, then a third that starts afterwards."""
    clients = [await make_client(open_store(redis_server.url)) for _ in range(2)]
    await clients[0].post("/v1/sessions", json=SESSION)
    await clients[0].post(f"{PATH}/acts", json={"count": 5})
    answers = await asyncio.gather(*(each.request(method, path, json=body, headers=KEY) for each in clients * 5))
    later = await make_client(open_store(redis_server.url))
    answers += [await later.request(method, path, json=body, headers=KEY)]

    assert {(answer.is_success, answer.text) for answer in answers} == {(True, answers[0].text)}
    assert sum("Idempotent-Replayed" not in answer.headers for answer in answers) == 1
    if other is not None:
        refused = await later.request(method, path, json=body | other, headers=KEY)
        assert (refused.status_code, refused.json()["code"]) == (422, "idempotency_conflict")
    if path == PATH:  # A change that came between is no reason to answer otherwise.
        await later.patch(PATH, json={"idle_ttl_seconds": 70})
        assert (await later.request(method, path, json=body, headers=KEY)).text == answers[0].text
    view = (await later.get(PATH)).json()
    counted = {"acts": (8, 0), "act": (6, 0), "feedback": (5, 1), "feedbacks": (5, 2)}
    assert (view["slot"], view["feedbacks"]) == counted.get(path.rpartition("/")[2], (5, 0))
    await later.delete("/v1/sessions/new")
    await later.delete(PATH)


async def test_a_key_is_another_on_another_route_and_for_another_session(client):
    """Creations that name no session count together; all others count to the session."""

    async def replayed(path, body, method="POST"):
        answer = await client.request(method, path, json=body, headers=KEY)
        assert answer.is_success, answer.text
        return "Idempotent-Replayed" in answer.headers

    other = SESSION | {"session_id": "other"}
    unnamed = {"learner": SESSION["learner"]}
    first = [
        *(("/v1/sessions", body) for body in (SESSION, other, unnamed)),
        (f"{PATH}/act", {}),
        (f"{PATH}/acts", {"count": 1}),
        ("/v1/sessions/other/act", {}),
        (f"{PATH}/feedback", EVENT),
        (f"{PATH}/arms", {"add": ["b"]}, "PATCH"),
    ]

    assert [await replayed(*call) for call in first] == [False] * len(first)
    assert [await replayed(*call) for call in first] == [True] * len(first)


async def test_the_order_of_fields_is_the_same_request_and_another_query_is_not(client):
    await client.post("/v1/sessions", json=SESSION)
    await client.post(f"{PATH}/act")
    texts = ('{"label": "a", "loss": 0.25}', '{"loss":0.25,\n"label":"a"}')
    headers = KEY | {"Content-Type": "application/json"}
    first, same = [await client.post(f"{PATH}/feedback", content=text, headers=headers) for text in texts]
    other = await client.post(f"{PATH}/feedback?on_surplus=skip", content=texts[0], headers=headers)

    assert (first.json(), "Idempotent-Replayed" in first.headers) == (same.json(), False)
    assert "Idempotent-Replayed" in same.headers
    assert (other.status_code, other.json()["code"]) == (422, "idempotency_conflict")


LABELLED = [f"{number:0123}" for number in range(1000)]


@pytest.mark.parametrize(
    ("arms", "method", "call", "body"),
    [
        pytest.param(LABELLED, "POST", "acts", {"count": 1000}, id="acts of long labels"),
        pytest.param(LABELLED, "PATCH", "arms", {}, id="arms of long labels"),
        pytest.param([str(number) for number in range(20_000)], "PATCH", "arms", {}, id="many arms"),
    ],
)
async def test_a_long_answer_is_kept_short_and_returns_whole(make_client, redis_server, arms, method, call, body):
    client = await make_client(open_store(redis_server.url))
    await client.post("/v1/sessions", json={"session_id": "s", "learner": {"kind": "dexp3", "arms": arms}})
    path, key = f"/v1/sessions/s/{call}", {"Idempotency-Key": "once"}

    first = await client.request(method, path, json=body, headers=key)
    again = await client.request(method, path, json=body, headers=key)

    assert (first.status_code, again.status_code) == (200, 200)
    assert (again.headers["Idempotent-Replayed"], again.content) == ("true", first.content)
    (kept,) = redis_server.client.keys("bandit:{s}:seen:*")
    assert redis_server.client.memory_usage(kept) < len(first.content) / 4


@pytest.mark.parametrize("key", ["", "x" * 256, "\u00e9"])
async def test_keys_are_short_printable_ascii(client, create, key):
    path = await create()

    response = await client.post(f"{path}/act", headers={"Idempotency-Key": key.encode("utf-8")})

    assert response.status_code == 422


async def test_a_refusal_is_not_kept_under_its_key(client, create):
    path = await create(learner={"kind": "dexp3", "n_arms": 1})
    request = {"headers": {"Idempotency-Key": "k"}, "json": {"arm": 0, "loss": 0.5}}

    assert (await client.post(f"{path}/feedback", **request)).status_code == 409
    await client.post(f"{path}/act")
    assert (await client.post(f"{path}/feedback", **request)).json()["applied"] == 1


async def test_a_route_without_a_body_takes_a_key(make_client, monkeypatch):
    router = APIRouter(prefix="/v1/new", route_class=CallRoute)

    @router.post("/{session_id}", response_model=None)
    @access(CLIENTS)
    async def new(call: Call, session_id: str) -> Reply:
        return Reply((await call.idempotency()).key)

    monkeypatch.setattr("service.app.ROUTES", [*ROUTES, *router.routes])
    client = await make_client()
    one, same, other = [await client.post(f"/v1/new/{name}", headers=KEY) for name in ("a", "a", "b")]

    assert one.status_code == 200
    assert one.content == same.content != other.content
