"""PATCH of a session's window: what becomes of the decisions that are open."""

from __future__ import annotations

import pytest

from tests.api.session_changes.conftest import PATH, WINDOW, counts, created, patch


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
    await patch(client, expiry={"after_seconds": 64})
    clock.now += 10
    await client.post(f"{PATH}/acts", json={"count": 2})

    clock.now += 53
    assert await counts(client) == (7, 0)
    clock.now += 3
    assert await counts(client) == (2, 5)
    clock.now += 10
    assert await counts(client) == (0, 7)


async def test_without_a_window_nothing_expires_and_nothing_is_left_of_its_times(client, clock, store):
    await created(client, expiry=WINDOW)
    for _ in range(3):
        await client.post(f"{PATH}/act")
        clock.now += 2
    assert await store.read_records("s")
    await patch(client, expiry=None)
    clock.now += 1000

    assert await counts(client) == (3, 0)
    assert await store.read_records("s") == {}
    await patch(client, expiry=WINDOW)
    clock.now += 66
    assert (await client.post(f"{PATH}/act")).status_code == 200
    assert await counts(client) == (1, 3)


async def test_another_worker_goes_on_with_the_new_window(make_client, client, store, clock):
    other = await make_client(store)
    await created(client, expiry=WINDOW)
    await other.post(f"{PATH}/act")
    await patch(client, expiry={"after_seconds": 16, "default_loss": 1}, floor=0.1)
    await other.post(f"{PATH}/act")
    clock.now += 18
    await other.post(f"{PATH}/act")

    assert await counts(client) == (1, 2)
    assert (await other.get(PATH)).json()["mean_loss"] == 1.0


async def test_of_a_provisional_default_only_the_window_may_change(client, clock):
    learner = {"kind": "multiscale_tsallis", "arms": ["a", "b"]}
    await created(client, learner=learner, expiry=WINDOW)
    for fields in (None, WINDOW | {"default_loss": 1}, WINDOW | {"provisional": False}, {"after_seconds": 1}):
        assert "expiry" in (await patch(client, 422, expiry=fields))["detail"]
    await client.post(f"{PATH}/act")

    view = await patch(client, expiry=WINDOW | {"after_seconds": 16})

    assert view["expiry"] == {"after_seconds": 16, "default_loss": 0, "provisional": True}
    clock.now += 18
    assert await counts(client) == (0, 1)


async def test_a_patch_makes_no_session_provisional(client):
    learner = {"kind": "multiscale_tsallis", "arms": ["a", "b"]}
    await created(client, learner=learner)

    view = await patch(client, expiry=WINDOW)

    assert view["expiry"]["provisional"] is False
