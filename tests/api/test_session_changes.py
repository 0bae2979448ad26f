"""PATCH of a session: its fields, idle time, floor and window, and what becomes of the decisions that are open."""

import pytest

from service.store import open_store
from tests.support.one_session import PATH, made, patch

ARMS = {"kind": "centred_tsallis", "arms": ["a", "b"]}


WINDOW = {"after_seconds": 64, "default_loss": 0}


async def created(client, **fields):
    body = {"session_id": "s", "learner": ARMS, "loss_range": [1, 0], "seed": 5} | fields
    await made(client, **body)
    return body


async def counts(client):
    view = (await client.get(PATH)).json()
    return view["outstanding"], view["expired"]


async def test_fields_are_replaced_whole_and_null_clears(client):
    await created(client, expiry=WINDOW, idle_ttl_seconds=100)

    first = await patch(client, expiry={"after_seconds": 32, "default_loss": None}, floor=0.25)
    second = await patch(client, idle_ttl_seconds=None, floor=None)
    third = await patch(client, expiry=None)

    assert first["expiry"] == {"after_seconds": 32, "default_loss": None}
    assert (first["floor"], second["floor"]) == (0.25, 0.0)
    assert (first["expires_at"] is None, second["expires_at"], second["idle_ttl_seconds"]) == (False, None, None)
    assert (second["expiry"], third["expiry"]) == (first["expiry"], None)
    assert (await client.get(PATH)).json() == third
    assert await patch(client) == third


async def test_arms_are_shown_beside_what_was_changed_while_they_were_asked_for(client, memory):
    await created(client, goals={"click": 1, "buy": 0})
    load = memory.load

    async def load_before_another_change(*asked):
        found, memory.load = await load(*asked), load
        await patch(client, goals={"click": 1})
        return found

    memory.load = load_before_another_change
    answer = await client.patch(f"{PATH}/arms", json={"add": ["c"]})

    assert (answer.status_code, [*answer.json()["goals"]]) == (200, ["click"])


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
    [{"kind": "dexp3", "n_arms": 2}, {"kind": "dbgd", "dim": 2, "feasible_set": {"kind": "ball", "radius": 1}}],
    ids=["arms", "points"],
)
async def test_learners_that_do_not_define_a_floor_get_none(client, learner):
    await created(client, learner=learner)

    refused = await patch(client, status=422, floor=0.1)

    assert [error["field"] for error in refused["errors"]] == ["floor"]
    assert (await patch(client, floor=0))["floor"] == (await patch(client, floor=None))["floor"] == 0


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


@pytest.mark.parametrize("seconds", [16, 640])
async def test_open_acts_get_the_new_window_from_their_act_on(client, clock, seconds):
    await created(client, expiry=WINDOW)
    for _ in range(3):
        await client.post(f"{PATH}/act")
        clock.now += 8
    await patch(client, expiry={"after_seconds": seconds, "default_loss": 0})
    last, accuracy = clock.now - 8, 2 * max(64, seconds) / 64

    clock.now = max(clock.now, last - 16 + seconds - 0.01)
    assert (await counts(client))[1] == (0 if seconds > 24 else 1)
    clock.now = last + seconds - 0.01
    assert (await counts(client))[1] < 3
    clock.now = last + seconds + accuracy
    assert await counts(client) == (0, 3)


@pytest.mark.parametrize("kind", ["centred_tsallis", "exp3"])
async def test_what_a_new_window_makes_due_is_settled_in_the_answer(client, clock, kind):
    learner = {"kind": kind, "n_arms": 2} | ({"learning_rate": 0.1} if kind == "exp3" else {})
    await created(client, learner=learner, expiry=WINDOW)
    await client.post(f"{PATH}/acts", json={"count": 3})
    clock.now += 32

    changed = await patch(client, expiry={"after_seconds": 16, "default_loss": 1})

    assert (changed["outstanding"], changed["expired"], changed["mean_loss"]) == (0, 3, 1)
    assert (await client.get(PATH)).json() == changed
    await client.post(f"{PATH}/act")
    assert await counts(client) == (1, 3)


@pytest.mark.parametrize("kind", ["centred_tsallis", "exp3", "ogd"])
async def test_acts_opened_without_a_window_count_from_the_change(client, clock, kind):
    learner = {"kind": "ogd", "dim": 1, "feasible_set": {"kind": "ball", "radius": 1.0}}
    if kind != "ogd":
        learner = {"kind": kind, "n_arms": 2}
    await created(client, learner=learner | ({} if kind == "centred_tsallis" else {"learning_rate": 0.1}))
    await client.post(f"{PATH}/acts", json={"count": 5})
    clock.now += 1000
    await patch(client, expiry={"after_seconds": 64, "default_loss": None})
    clock.now += 10
    await client.post(f"{PATH}/acts", json={"count": 2})

    clock.now += 53
    assert await counts(client) == (7, 0)
    clock.now += 3
    assert await counts(client) == (2, 5)
    clock.now += 10
    assert await counts(client) == (0, 7)


async def test_without_a_window_nothing_expires_and_nothing_is_left_of_its_times(client, clock, memory):
    await created(client, expiry=WINDOW)
    for _ in range(3):
        await client.post(f"{PATH}/act")
        clock.now += 2
    assert await memory.read_records("s")
    await patch(client, expiry=None)
    clock.now += 1000

    assert await counts(client) == (3, 0)
    assert await memory.read_records("s") == {}
    await patch(client, expiry=WINDOW)
    clock.now += 66
    assert (await client.post(f"{PATH}/act")).status_code == 200
    assert await counts(client) == (1, 3)


async def test_another_worker_goes_on_with_the_new_window(make_client, client, memory, clock):
    other = await make_client(memory)
    await created(client, expiry=WINDOW)
    await other.post(f"{PATH}/act")
    await patch(client, expiry={"after_seconds": 16, "default_loss": 1}, floor=0.1)
    await other.post(f"{PATH}/act")
    clock.now += 18
    await other.post(f"{PATH}/act")

    assert await counts(client) == (1, 2)
    assert (await other.get(PATH)).json()["mean_loss"] == 1.0


async def test_of_a_provisional_default_only_the_window_may_change(client, clock):
    await created(client, learner={"kind": "multiscale_tsallis", "arms": ["a", "b"]}, expiry=WINDOW)
    for fields in (None, WINDOW | {"default_loss": 1}, WINDOW | {"provisional": False}, {"after_seconds": 1}):
        assert "expiry" in (await patch(client, 422, expiry=fields))["detail"]
    await client.post(f"{PATH}/act")

    view = await patch(client, expiry=WINDOW | {"after_seconds": 16})

    assert view["expiry"] == {"after_seconds": 16, "default_loss": 0, "provisional": True}
    clock.now += 18
    assert await counts(client) == (0, 1)


async def test_a_patch_makes_no_session_provisional(client):
    await created(client, learner={"kind": "multiscale_tsallis", "arms": ["a", "b"]})

    view = await patch(client, expiry=WINDOW)

    assert view["expiry"]["provisional"] is False


async def test_what_keeps_the_window_keeps_when_decisions_were_taken(client, make_client, memory, clock):
    other, expiry = await make_client(memory), {"after_seconds": 64, "default_loss": 1}
    await made(client, learner={"kind": "centred_tsallis", "n_arms": 2}, expiry=expiry)
    await client.post(f"{PATH}/acts", json={"count": 5})
    for change in ({"floor": 0.1}, {"expiry": expiry | {"default_loss": 0.5}}):
        assert (await client.patch(PATH, json=change)).status_code == 200
    clock.now += 70

    assert (await other.get(PATH)).json()["expired"] == 5
