"""Counts of arms on every store: they go on, move with their session, and survive what somebody changed by hand."""

import pytest

from service.commit.committer import FEW_ARMS
from service.store import open_store
from service.store.redis.scripts import with_joined
from service.store.redis.store import RedisStore

PATH = "/v1/sessions/s"
SESSION = {
    "session_id": "s",
    "seed": 5,
    "learner": {"kind": "centred_tsallis", "arms": ["a", "b", "c"]},
    "expiry": {"after_seconds": 3600},
}
USE = [("a", 0.5), ("b", 0.25), ("a", None), ("a", 0.75), ("c", None), ("b", 0.5)]
"""Labels that are drawn, and the losses that are reported."""
SUMS = {"a": (3, 2, 1.25), "b": (2, 2, 0.75), "c": (1, 0, 0.0)}
"""Acts, feedbacks and losses of each arm after them."""


async def use(client):
    """Act and report as ``USE`` says."""
    for label, loss in USE:
        await client.post(f"{PATH}/acts", json={"count": 1, "eligible": [label]})
        if loss is not None:
            event = {"label": label, "loss": loss}
            assert (await client.post(f"{PATH}/feedback", json=event)).json()["applied"] == 1


async def check(client, times):
    """The counts of all arms are those of ``USE``, so many times."""
    rows = (await client.get(f"{PATH}/arms")).json()["arms"]
    for row in rows:
        acts, feedbacks, losses = SUMS[row["label"]]
        assert (row["acts"], row["feedbacks"]) == (times * acts, times * feedbacks)
        assert row["outstanding"] == times * (acts - feedbacks)
        assert row["mean_loss"] == (pytest.approx(losses / feedbacks) if feedbacks else None)
    ordered = (await client.get(f"{PATH}/arms", params={"sort": "-acts"})).json()["arms"]
    assert [row["label"] for row in ordered] == [row["label"] for row in rows]


async def test_counts_go_on_and_move_with_an_exported_session(make_client, store, store_url, store_options):
    here = await make_client(store)
    other = open_store(store_url, options=store_options)
    there = await make_client(other)
    await here.post("/v1/sessions", json=SESSION)
    await use(here)
    await check(here, 1)
    document = (await here.get(f"{PATH}/export")).json()
    await here.delete(PATH)

    assert (await there.post("/v1/sessions/import", json=document)).status_code == 201
    await use(there)
    await check(there, 2)
    await there.patch(f"{PATH}/arms", json={"remove": ["c"]})
    await check(there, 2)


@pytest.mark.parametrize("n_arms", [FEW_ARMS, FEW_ARMS + 1])
async def test_packed_counts_of_few_arms_are_one_value_and_of_others_a_field_each(
    make_client, redis_server, n_arms
):
    """Acts take nothing: each is outstanding, or counted by what became of it."""
    store = RedisStore(redis_server.url)
    client = await make_client(store)
    learner = SESSION["learner"] | {"arms": [*"abcdefghijkl"[:n_arms]]}
    await client.post("/v1/sessions", json=SESSION | {"learner": learner})

    await use(client)

    a, b = b"\x02\xca\x3f\xa0\0\0", b"\x02\xca\x3f\x40\0\0"
    few = n_arms == FEW_ARMS
    assert redis_server.client.hget("bandit:{s}", "counts") == (b"\xa6" + a + b"\xa6" + b if few else None)
    assert redis_server.client.hgetall("bandit:{s}:counts") == ({} if few else {b"0": a, b"1": b})
    await store.close()


@pytest.mark.parametrize(
    "value", [b"", b"x", b"\xa1", b"\xc1", b"\xa9", b"\xa1\xc1", b"\x05", b"\x92\1\2"], ids=ascii
)
async def test_a_value_that_somebody_changed_holds_up_no_commit(make_client, redis_server, value):
    store = RedisStore(redis_server.url)
    client = await make_client(store)
    await client.post("/v1/sessions", json=SESSION)
    redis_server.client.hset("bandit:{s}", "counts", value)

    await use(client)

    rows = (await client.get(f"{PATH}/arms")).json()["arms"]
    assert [row["label"] for row in rows] == ["a", "b", "c"]
    assert (await client.get(f"{PATH}/export")).status_code == 200
    await store.close()


async def test_counts_go_on_where_few_arms_become_many(make_client, store):
    client = await make_client(store)
    await client.post("/v1/sessions", json=SESSION)
    await use(client)

    await client.patch(f"{PATH}/arms", json={"add": [f"new {n}" for n in range(FEW_ARMS)]})
    await use(client)
    await client.patch(f"{PATH}/arms", json={"remove": [f"new {n}" for n in range(FEW_ARMS)]})

    await check(client, 2)


@pytest.mark.parametrize(
    ("joined", "expected"),
    [
        (None, {1: [1]}),
        (b"\xa2\x01\x02", {0: [1, 2], 1: [1]}),
        (b"\xa0\xd9\x02\x01\x02", {0: [], 1: [2, 2]}),
        (b"\xa0\xa0\xda\0\x02\x01\x02", {0: [], 1: [1], 2: [1, 2]}),
        (b"\xa2\x01\x02\xff\xa2\x01\x02", {0: [1, 2], 1: [1]}),
        (b"\xa2\x01\x02\xd9", {0: [1, 2], 1: [1]}),
        (b"\xa5\x01\x02", {0: [1, 2], 1: [1]}),
        (b"\xa2\xc1\x02", {0: [], 1: [1]}),
    ],
)
def test_joined_counts_that_somebody_changed_are_read_as_far_as_they_are_numbers(joined, expected):
    assert with_joined({1: [1]}, joined) == expected
