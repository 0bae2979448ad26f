"""PATCH of a session: fields, idle time and floor; again, with a key, and refused."""

from __future__ import annotations

import pytest

from service.store import open_store
from tests.api.session_changes.conftest import PATH, WINDOW, created, patch


async def test_fields_are_replaced_whole_and_null_clears(client):
    await created(client, expiry=WINDOW, idle_ttl_seconds=100)

    first = await patch(client, expiry={"after_seconds": 32}, floor=0.25)
    second = await patch(client, idle_ttl_seconds=None, floor=None)
    third = await patch(client, expiry=None)

    assert first["expiry"] == {"after_seconds": 32, "default_loss": None}
    assert (first["floor"], second["floor"]) == (0.25, 0.0)
    assert (first["expires_at"] is None, second["expires_at"], second["idle_ttl_seconds"]) == (False, None, None)
    assert (second["expiry"], third["expiry"]) == (first["expiry"], None)
    assert (await client.get(PATH)).json() == third
    assert await patch(client) == third


async def test_posting_again_compares_with_the_values_in_force(client):
    body = await created(client, expiry=WINDOW)
    await patch(client, expiry=None, floor=0.5)

    before = await client.post("/v1/sessions", json=body)
    now = await client.post("/v1/sessions", json=body | {"expiry": None, "floor": 0.5})

    assert now.status_code == 200
    assert (before.status_code, before.json()["code"]) == (409, "session_exists")
    assert sorted(error["field"] for error in before.json()["errors"]) == ["expiry", "floor"]


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"expiry": {"after_seconds": 64, "default_loss": 2}}, "expiry.default_loss"),
        ({"expiry": {"after_seconds": 64, "default_reward": 1}}, "expiry.default_reward"),
        ({"expiry": {"after_seconds": 64, "default_loss": 1, "provisional": True}}, "provisional"),
        ({"expiry": {"default_loss": 1}}, "expiry.after_seconds"),
        ({"idle_ttl_seconds": 0}, "idle_ttl_seconds"),
        ({"floor": 1}, "floor"),
        ({"seed": 1}, "seed"),
    ],
)
async def test_what_does_not_fit_is_refused_and_changes_nothing(client, fields, named):
    await created(client)
    before = (await client.get(PATH)).json()

    assert named in (await patch(client, 422, **fields))["detail"]
    assert (await client.get(PATH)).json() == before


@pytest.mark.parametrize(
    "learner",
    [
        {"kind": "dexp3", "n_arms": 2},
        {"kind": "dbgd", "dim": 2, "feasible_set": {"kind": "ball", "radius": 1}},
    ],
    ids=["arms", "points"],
)
async def test_learners_that_do_not_define_a_floor_get_none(client, learner):
    await created(client, learner=learner)

    refused = await patch(client, status=422, floor=0.1)

    assert [error["field"] for error in refused["errors"]] == ["floor"]
    assert (await patch(client, floor=0))["floor"] == (await patch(client, floor=None))["floor"] == 0


async def test_a_session_that_is_not_there(client):
    assert (await patch(client, 404, floor=0.5))["code"] == "unknown_session"


async def test_a_shorter_idle_time_ends_the_session_earlier(client, clock):
    await created(client, idle_ttl_seconds=1000)
    await patch(client, idle_ttl_seconds=10)

    clock.now += 9
    assert (await client.get(PATH)).status_code == 200
    clock.now += 2
    assert (await client.get(PATH)).status_code == 404


async def test_in_redis_a_session_becomes_permanent_and_mortal_again(make_client, redis_server):
    client = await make_client(open_store(redis_server.url))
    await created(client, expiry=WINDOW, idle_ttl_seconds=100)
    await client.post(f"{PATH}/act", headers={"Idempotency-Key": "k"})

    def ttls():
        return {key: redis_server.client.pttl(key) for key in redis_server.client.keys("bandit:{s}*")}

    before = ttls()
    permanent = await patch(client, idle_ttl_seconds=None, expiry=WINDOW | {"after_seconds": 16})
    between = ttls()
    mortal = await patch(client, idle_ttl_seconds=50, expiry=None)
    after = ttls()
    await client.delete(PATH)

    assert all(0 < left <= 100_000 for left in before.values())
    assert (permanent["expires_at"], mortal["idle_ttl_seconds"]) == (None, 50)
    assert between[b"bandit:{s}"] == between[b"bandit:{s}:slots"] == -1
    assert all(left == -1 or left > 100_000 for left in between.values())
    assert b"bandit:{s}:slots" not in after
    assert all(0 < left <= 50_000 for left in after.values())
