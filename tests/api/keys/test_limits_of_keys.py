"""What a key bounds: sessions, arms, bodies, and where its idempotency keys count."""

import asyncio
import json

from service.settings import SecretText
from service.store.memory import MemoryStore
from tests.api.keys.conftest import LEARNER
from tests.support.api_keys import ADMIN, CLIENT, KEYS, SETUP, SHOP, bearer


async def test_sessions_are_created_within_the_prefix_and_the_limits(client, problem):
    async def post(**body):
        return await client.post("/v1/sessions", json={"learner": LEARNER} | body, headers=bearer(SETUP))

    problem(await post(session_id="mine"), 403, "forbidden")
    problem(await post(learner={"kind": "dexp3", "n_arms": 5}), 422, "invalid_request")
    answer = await post()
    assert answer.status_code == 201
    assert answer.json()["session_id"].startswith("shop-")
    problem(await post(), 403, "forbidden")
    assert (await post(session_id="shop-1")).status_code == 200


async def test_arms_are_added_within_the_limit(client, problem):
    body = {"session_id": "shop-2", "learner": {"kind": "dexp3", "arms": ["a", "b", "c"]}}
    assert (await client.post("/v1/sessions", json=body, headers=bearer(SETUP))).status_code == 201

    async def add(*labels):
        return await client.patch("/v1/sessions/shop-2/arms", json={"add": labels}, headers=bearer(SETUP))

    assert (await add("d")).status_code == 200
    problem(await add("e"), 422, "invalid_request")


async def test_arms_are_removed_however_many_there_are(client, problem):
    body = {"session_id": "shop-2", "learner": {"kind": "dexp3", "arms": [*"abcdefgh"]}}
    assert (await client.post("/v1/sessions", json=body, headers=bearer(ADMIN))).status_code == 201

    async def change(**body):
        return await client.patch("/v1/sessions/shop-2/arms", json=body, headers=bearer(SETUP))

    assert (await change(remove=["a"])).json()["learner"]["n_arms"] == 7
    problem(await change(remove=["b"], add=["x"]), 422, "invalid_request")
    assert (await change(remove=["b", "c", "d", "e"], add=["x"])).json()["learner"]["n_arms"] == 4


async def test_a_body_is_bounded_by_the_key(client, problem):
    event = {"arm": 0, "loss": 0.5, "event_id": "x" * 80}

    problem(
        await client.post("/v1/sessions/shop-1/feedback", json=event, headers=bearer(SHOP)),
        413,
        "payload_too_large",
    )


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
    asked = [
        client.post("/v1/sessions", json={"session_id": f"shop-{n}", "learner": LEARNER}, headers=bearer(SETUP))
        for n in range(8)
    ]

    answers = await asyncio.gather(*asked)

    assert sorted(answer.status_code for answer in answers) == 2 * [201] + 6 * [403]
