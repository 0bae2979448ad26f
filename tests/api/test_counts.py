"""Counts of arms on every store: they go on, move with their session, and survive what somebody changed by hand."""

import struct

import pytest

from service.store import open_store
from service.store.base import ArmCounts
from service.store.redis.store import RedisStore
from tests.support.sessions import new_session

PATH = "/v1/sessions/s"
SESSION = {"session_id": "s", "seed": 5, "learner": {"kind": "centred_tsallis", "arms": ["a", "b", "c"]}}
SESSION |= {"expiry": {"after_seconds": 3600, "default_loss": None}}
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
    there = await make_client(open_store(store_url, options=store_options))
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


async def test_counts_of_sixteen_arms_are_one_field(make_client, redis_server):
    """Acts take nothing: each is outstanding, or counted by what became of it."""
    store = RedisStore(redis_server.url)
    client = await make_client(store)
    learner = SESSION["learner"] | {"arms": [*"abcdefghijklmnopq"]}
    await client.post("/v1/sessions", json=SESSION | {"learner": learner})

    await use(client)
    await client.post(f"{PATH}/acts", json={"count": 1, "eligible": ["q"]})
    await client.post(f"{PATH}/feedback", json={"label": "q", "loss": 0.1})

    sums = struct.pack(">BfBf", 0xCA, 1.25, 0xCA, 0.75)
    assert redis_server.client.hget("bandit:{s}", "#0") == b"\2\2" + bytes(14) + sums
    assert redis_server.client.hget("bandit:{s}", "#1") == b"\1" + bytes(15) + struct.pack(">Bd", 0xCB, 0.1)
    assert not redis_server.client.exists("bandit:{s}:counts")
    await store.close()


async def test_counts_go_on_where_arms_come_and_go(make_client, store):
    client = await make_client(store)
    await client.post("/v1/sessions", json=SESSION)
    await use(client)

    await client.patch(f"{PATH}/arms", json={"add": [f"new {n}" for n in range(20)]})
    await use(client)
    await client.patch(f"{PATH}/arms", json={"remove": [f"new {n}" for n in range(20)]})

    await check(client, 2)


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        (b"", ArmCounts()),
        (b"\1\2", ArmCounts(1)),
        (b"\xff" + bytes(15) + b"\xcc\xfe", ArmCounts(-1, 254)),
        (b"\xa1x" + bytes(15) + b"\2", ArmCounts(0, 2)),
        (b"\1\xcb\2", ArmCounts()),
        (b"\xcb\x7f\xf0" + bytes(6), ArmCounts()),
        (b"\xcb\x7f\xf8" + bytes(6), ArmCounts()),
        (b"\1" + bytes(200), ArmCounts(1)),
    ],
)
async def test_what_somebody_changed_to_no_numbers_is_read_as_nothing(redis_server, field, expected):
    store = RedisStore(redis_server.url)
    await store.create(new_session())
    redis_server.client.hset("bandit:{s}", mapping={"#0": field, "#x": b"\1"})

    whole = await store.export("s")

    assert (await store.read_counts("s", [0])).rows == [expected]
    assert whole.counts.get(0, ArmCounts()) == expected
    await store.close()
