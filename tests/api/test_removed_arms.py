"""Arms that were removed: commits don't carry them, their labels are known for a while, unknown ones are told."""

import pickle

import pytest

from service.store.memory import MemoryStore
from tests.support.one_session import KINDS, PATH, act, change, replace, session, view

LABELS = [f"item {number}" for number in range(50)]
HUNDRED_THOUSAND = [pytest.param(kind, 100_000, marks=pytest.mark.slow) for kind in ("dexp3", "segments")]
WINDOW, DEDUPE = 1_000.0, 100


class Watched(MemoryStore):
    """Knows how many bytes the last commit wrote."""

    written = 0

    async def commit(self, commit):
        if commit.written is not None:
            self.written = len(pickle.dumps(commit.written))
        return await super().commit(commit)


async def worn(client, ever, **fields):
    """A session of 50 arms that has had so many, none of them twice."""
    await session(client, arms=LABELS, **fields)
    for last in (*range(1_000, ever, 1_000), ever):
        await replace(client, [f"item {number}" for number in range(max(last - 1_000, 0), last)])
    await replace(client, [f"item {number}" for number in range(ever - 50, ever)])


async def used(client, store, **segment):
    """The bytes that acts and events write, while nothing else happens."""
    written = []
    for _ in range(5):
        action = await act(client, **segment)
        written.append(store.written)
        event = {"arm": action["arm"], "loss": 0.25, "slot": action["slot"], "event_id": f"{len(written):04}"}
        assert (await client.post(f"{PATH}/feedback", json=event | segment)).json()["applied"] == 1
        written.append(store.written)
    return written


@pytest.mark.parametrize(
    "fields", [{}, {"expiry": {"after_seconds": 1e6, "default_loss": None}, "decision_log": {"max_entries": 9999}}]
)
@pytest.mark.parametrize(("kind", "ever"), [*((kind, 2_000) for kind in [*KINDS, "segments"]), *HUNDRED_THOUSAND])
async def test_a_commit_is_no_larger_for_arms_that_were_removed(make_client, clock, kind, fields, ever):
    segment = {"segment": "cart"} if kind == "segments" else {}
    if segment:
        kind, fields = "multiscale_tsallis", fields | {"segments": {"max": 9}}
    found = []
    for n_ever in (50, ever):
        client = await make_client(store := Watched(clock=clock), max_arms_ever=10**6)
        await worn(client, n_ever, kind=kind, **fields)
        found.append(await used(client, store, **segment))

    assert all(worn_out <= 1.1 * fresh for fresh, worn_out in zip(*found, strict=True))


@pytest.mark.parametrize("ever", [150, pytest.param(5_000, marks=pytest.mark.slow)])
async def test_a_change_of_arms_writes_as_much_however_many_there_were(make_client, clock, ever):
    client, sizes = await make_client(store := Watched(clock=clock), max_arms_ever=10**6), []
    await session(client, arms=LABELS)
    for first in range(50, ever, 50):
        await replace(client, [f"item {number:09}" for number in range(first, first + 50)])
        sizes.append(store.written)

    assert max(sizes) <= 1.1 * sizes[1]  # The first removes no label that was added.


@pytest.mark.parametrize("window", [None, WINDOW])
async def test_a_removed_label_is_known_while_its_events_could_come(make_client, memory, clock, window):
    """That is its window, or that of event ids if it is longer; then nobody knows it."""
    client, twin = [await make_client(memory, dedupe_window_seconds=DEDUPE) for _ in range(2)]
    expiry = {} if window is None else {"expiry": {"after_seconds": window, "default_loss": None}}
    await session(client, decision_log={"max_entries": 99}, **expiry)
    await change(client, remove=["a", "b"])
    await change(client, add=["b"])
    known, late = window or DEDUPE, {"label": "a", "loss": 0.5}

    clock.now += known - 1
    first = [await each.post(f"{PATH}/feedback", json=late | {"event_id": "e"}) for each in (client, twin)]
    clock.now += 1
    after = [await each.post(f"{PATH}/feedback", json=late) for each in (twin, client)]
    again = await client.post(f"{PATH}/feedback?on_surplus=skip", json={"label": "b", "loss": 0.5})

    assert [answer.json().get("removed") for answer in first] == [1, None]
    assert first[1].json()["duplicates"] == 1
    assert [answer.status_code for answer in after] == [422, 422]
    assert after[0].json()["errors"][0]["field"] == "label"
    assert again.json()["surplus"] == 1
    entries = (await client.get(f"{PATH}/decisions")).json()["decisions"]
    assert [entry["arm"] for entry in entries if entry.get("outcome") == "removed"] == [0]


async def test_what_is_kept_of_removed_labels_goes_with_the_next_change(make_client, memory, clock):
    client = await make_client(memory, dedupe_window_seconds=DEDUPE)

    async def removed():
        return {key for key in await memory.read_records("s") if key[:1] == b"a"}

    await session(client)
    await change(client, remove=["a", "b"])
    assert await removed() == {b"a0", b"a1"}
    await change(client, add=["a"])
    assert await removed() == {b"a1"}
    clock.now += 1
    await change(client, remove=["a", "c"])
    assert await removed() == {b"a1", b"a2", b"a4"}
    clock.now += DEDUPE - 1
    await change(client, pause=["d"], add=["x"])
    assert await removed() == {b"a2", b"a4"}
    clock.now += 1
    await change(client, add=["y"])
    assert await removed() == set()


async def test_removed_labels_move_with_their_session_on_each_store(make_client, store):
    here = await make_client(store)
    await session(here, kind="dexp3")
    await change(here, remove=["a"], add=["x"])
    await replace(here, ["c", "d", "y"])
    document = (await here.get(f"{PATH}/export")).json()
    seen = await view(here)
    await here.delete(PATH)
    there = await make_client(store)

    assert (await there.post("/v1/sessions/import", json=document)).status_code == 201
    for client in (there, here, await make_client(store)):
        for label in "abx":
            answer = await client.post(f"{PATH}/feedback", json={"label": label, "loss": 0.5})
            assert answer.json()["removed"] == 1
    assert (await client.post(f"{PATH}/feedback", json={"label": "z", "loss": 0.5})).status_code == 422
    moved = await view(there)
    assert (moved["learner"], moved["probabilities"]) == (seen["learner"], seen["probabilities"])
    assert moved["learner"]["arm_indexes"] == [2, 3, 5]
    await there.delete(PATH)


async def test_labels_that_no_arm_has_are_told_in_the_answer_alone(client):
    await session(client)
    body = {"remove": ["zz", "a", "zz"], "pause": ["a", "new", "b"], "resume": ["zz", "y", "b"], "add": ["new"]}

    changed = await change(client, headers={"Idempotency-Key": "k"}, **body)
    again = await change(client, remove=["a"])
    put = await replace(client, ["b", "c"])

    assert (changed["unknown"], changed["paused"]) == (["zz", "a", "y"], ["b", "new"])
    assert again["unknown"] == ["a"]
    assert not {"unknown"} & (put.keys() | (await view(client)).keys())
    assert await change(client, headers={"Idempotency-Key": "k"}, **body) == changed


async def test_open_decisions_of_a_removed_arm_count_as_the_default_at_once(client):
    """Clicks that come later change no mean any more."""
    spec = {"session_id": "shop", "learner": {"kind": "multiscale_tsallis", "arms": ["a", "b"]}}
    spec |= {"reward_range": [0, 1], "expiry": {"after_seconds": 3600, "default_reward": 0}}
    assert (await client.post("/v1/sessions", json=spec)).status_code == 201
    path = "/v1/sessions/shop"
    await client.post(f"{path}/acts", json={"count": 9, "eligible": ["a"]})
    await client.post(f"{path}/feedback", json={"label": "a", "reward": 1})
    before = (await client.get(f"{path}/arms")).json()["arms"][0]
    assert before["so_far"] == {"acts": 9, "events": 1, "mean": pytest.approx(1 / 9)}
    assert before["mean_reward"] == 1
    assert before["low"] < 1 / 9 < before["high"]

    changed = await client.patch(f"{path}/arms", json={"remove": ["a"], "add": ["c"]})
    late = await client.post(f"{path}/feedback", json={"label": "a", "reward": 1})

    assert late.json()["removed"] == 1
    assert changed.json()["mean_reward"] == (await client.get(path)).json()["mean_reward"] == pytest.approx(1 / 9)
    live = (await client.get(f"{path}/arms")).json()["arms"]
    everything = (await client.get(f"{path}/arms?removed=true&sort=-acts")).json()["arms"]
    assert [row["label"] for row in live] == ["b", "c"]
    assert [row["label"] for row in everything] == ["a", "b", "c"]
    del before["best_chance"]
    means = {"mean_reward": pytest.approx(1 / 9)}
    assert everything[0] == before | {"removed": True, "probability": 0.0, "outstanding": 0} | means
    assert "removed" not in everything[1]


async def test_each_worker_knows_the_labels_of_removed_arms(make_client, clock):
    client, other = [await make_client(store) for store in [MemoryStore(clock=clock)] * 2]
    await session(client, arms=["a", "b"])
    await change(client, remove=["a"])
    for worker in (client, other):
        listed = (await worker.get(f"{PATH}/arms?removed=true")).json()["arms"]
        assert [row["label"] for row in listed] == ["a", "b"]
