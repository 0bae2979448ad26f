"""Lists of sessions and of a session's arms: each once, in pages that lead to the next, with counts that add up."""

import json
import math
import random
import uuid

import pytest

from service.sessions import pages as session_pages
from service.store.base import ArmCounts
from service.store.memory import MemoryStore
from tests.support.one_session import answered, pages
from tests.support.sessions import CountingStore

LONG = [f"{number:03}-".ljust(128, "x") for number in range(110)]


OWN = [str(uuid.UUID(int=number)) for number in range(110)]


@pytest.mark.parametrize("ids", [LONG, OWN], ids=["the longest ids", "ids of the service's kind"])
async def test_every_session_is_reached_with_pages_of_any_size(make_client, store, ids):
    client = await make_client(store)
    learner = {"kind": "dexp3", "n_arms": 2}
    for session_id in ids:
        await client.post("/v1/sessions", json={"session_id": session_id, "learner": learner})

    for limit in (1, 7, 100, 109):
        listed = []
        async for page in pages(client, "/v1/sessions", limit=limit):
            assert len(page["sessions"]) <= limit
            listed += [summary["session_id"] for summary in page["sessions"]]
        assert sorted(listed) == sorted(ids)


async def use_session(client, session_id, learner):
    await client.post("/v1/sessions", json={"session_id": session_id, "learner": learner, "seed": 1})
    for _ in range(3):
        await client.post(f"/v1/sessions/{session_id}/act")
    if "arms" in learner:
        await client.patch(f"/v1/sessions/{session_id}/arms", json={"add": ["new"], "remove": ["a"]})


LEARNERS = {
    "plain": {"kind": "dexp3", "n_arms": 3},
    "named": {"kind": "centred_tsallis", "arms": ["a", "b", "c"]},
    "points": {"kind": "dbgd", "dim": 2, "feasible_set": {"kind": "ball", "radius": 1.0}},
}


async def test_a_list_shows_views_without_distributions_and_reads_no_state(make_client):
    store = CountingStore()
    client = await make_client(store)
    views = []
    for name, learner in LEARNERS.items():
        await use_session(client, name, learner)
        view = (await client.get(f"/v1/sessions/{name}")).json()
        hidden = {"probabilities", "x", "paused", "leader"}
        views.append({field: value for field, value in view.items() if field not in hidden})
    loads = store.loads

    page = (await client.get("/v1/sessions")).json()

    assert page == {"sessions": sorted(views, key=lambda view: view["session_id"]), "next_cursor": None}
    assert store.loads == loads


async def test_sessions_without_what_seldom_changes_are_listed_alike(make_client):
    store = MemoryStore()
    client = await make_client(store)
    for name, learner in LEARNERS.items():
        await use_session(client, name, learner)
    expected = (await client.get("/v1/sessions")).json()
    for session in store._sessions.values():
        session.about = b""

    assert (await client.get("/v1/sessions")).json() == expected


async def test_a_session_whose_state_begins_with_damage_is_listed_as_unreadable(make_client):
    store = MemoryStore()
    client = await make_client(store)
    for name in ("s", "sound"):
        await use_session(client, name, LEARNERS["plain"])
    session = store._sessions["s"]
    session.state = session.state[:9] + bytes([session.state[9] ^ 1]) + session.state[10:]

    other = await make_client(store)  # Which has none of them in its cache.
    damaged, sound = (await other.get("/v1/sessions")).json()["sessions"]

    assert damaged == {"session_id": "s", "damaged": True}
    assert sound["slot"] == 3


async def test_a_session_with_many_labels_is_listed_without_them(make_client):
    client = await make_client()
    learner = {"kind": "dexp3", "arms": [f"arm {n}" for n in range(101)]}
    await client.post("/v1/sessions", json={"session_id": "s", "learner": learner})

    (shown,) = (await client.get("/v1/sessions")).json()["sessions"]

    assert "arms" not in shown["learner"]
    assert shown["learner"]["n_arms"] == 101


@pytest.mark.parametrize("params", [{"cursor": "no cursor!"}, {"limit": 0}, {"limit": 1001}, {"limit": "x"}])
async def test_a_list_refuses_what_it_never_gave(client, params):
    response = await client.get("/v1/sessions", params=params)

    assert (response.status_code, response.json()["code"]) == (422, "invalid_request")


LABELS = ["a", "b", "c", "d"]


async def arms(client, path, **params):
    return await answered(client, "GET", f"{path}/arms", params=params)


async def used(client, create, n=40, **fields):
    """A session with acts and feedback, and its path, by arm: acts, losses."""
    path = await create(learner={"kind": "dexp3", "arms": LABELS}, **fields)
    rng, acts, losses = random.Random(3), [0] * 4, [[], [], [], []]
    actions = (await client.post(f"{path}/acts", json={"count": n})).json()["actions"]
    for action in actions:
        acts[action["arm"]] += 1
        if rng.random() < 0.6:
            loss = rng.random()
            losses[action["arm"]].append(loss)
            answer = await client.post(f"{path}/feedback", json={"arm": action["arm"], "loss": loss})
            assert answer.status_code == 200
    return path, acts, losses


def interval(total, acts, alpha=0.05):
    """The confidence sequence of Waudby-Smith et al. (2024), written out, of losses in [0, 1]."""
    if not acts:
        return {"low": 0.0, "high": 1.0}
    m = (total + 2) / (acts + 4)
    r = (2 * math.log(1 / alpha) + math.log(2 * math.log(1 / alpha) + 1)) / 1000
    n_r = acts * r
    half = math.sqrt(m * (1 - m) * 2 * (n_r + 1) / (acts**2 * r) * math.log(math.sqrt(n_r + 1) / alpha))
    return {"low": pytest.approx(max(total / acts - half, 0)), "high": pytest.approx(min(total / acts + half, 1))}


async def test_every_arm_has_its_counts_and_its_mean(client, create):
    path, acts, losses = await used(client, create)
    view = (await client.get(path)).json()

    page = await arms(client, path)

    assert page["next_cursor"] is None
    for arm, row in enumerate(page["arms"]):
        mean = sum(losses[arm]) / len(losses[arm]) if losses[arm] else None
        assert row == {
            "arm": arm,
            "label": LABELS[arm],
            "paused": False,
            "probability": view["probabilities"][arm],
            "acts": acts[arm],
            "outstanding": acts[arm] - len(losses[arm]),
            "feedbacks": len(losses[arm]),
            "expired": 0,
            "mean_loss": None if mean is None else pytest.approx(mean),
            **interval(sum(losses[arm]), len(losses[arm])),
            "so_far": {"acts": len(losses[arm]), "events": len(losses[arm]), "mean": mean and pytest.approx(mean)},
        }


async def test_arms_whose_losses_were_alike_tie_however_many_there_were(client, create):
    path = await create(learner={"kind": "centred_tsallis", "arms": LABELS}, loss_range=[10, -10])
    for count, label in enumerate(LABELS[:3], start=5):
        await client.post(f"{path}/acts", json={"count": count, "eligible": [label]})
        events = [{"label": label, "loss": -7.3}] * count
        assert (await client.post(f"{path}/feedbacks", json={"events": events})).status_code == 200

    for sort in ("mean", "-mean"):
        rows = (await arms(client, path, sort=sort))["arms"]
        assert [row["label"] for row in rows] == LABELS
        assert [row["mean_loss"] for row in rows] == [-7.3, -7.3, -7.3, None]


async def test_an_unused_session_lists_its_arms_without_means_or_labels(client, create):
    page = await arms(client, await create())

    assert [row["arm"] for row in page["arms"]] == [0, 1, 2]
    assert all(row["acts"] == 0 and row["mean_loss"] is None and "label" not in row for row in page["arms"])


@pytest.mark.parametrize("sort", ["index", "probability", "acts", "mean"])
@pytest.mark.parametrize("sign", ["", "-"])
async def test_pages_follow_each_other_in_any_order(client, create, sort, sign):
    """Ties by index, arms without a mean last, whichever way round."""
    path, *_ = await used(client, create, n=9)
    whole = (await arms(client, path))["arms"]
    name = {"index": "arm", "mean": "mean_loss"}.get(sort, sort)
    turn = -1 if sign else 1
    expected = sorted(whole, key=lambda row: (row[name] is None, turn * (row[name] or 0), row["arm"]))

    found = [row async for page in pages(client, f"{path}/arms", sort=sign + sort, limit=3) for row in page["arms"]]

    assert found == expected


async def test_decisions_that_are_due_count_as_expired_before_anybody_settles_them(client, create, clock):
    expiry = {"after_seconds": 64, "default_loss": 0.25}
    await create(session_id="s", learner={"kind": "centred_tsallis", "n_arms": 2}, seed=1, expiry=expiry)
    await client.post("/v1/sessions/s/acts", json={"count": 10})
    first = (await client.post("/v1/sessions/s/acts", json={"count": 1})).json()["actions"][0]["arm"]
    await client.post("/v1/sessions/s/feedback", json={"arm": first, "loss": 1.0})
    clock.now += 66

    seen = (await arms(client, "/v1/sessions/s"))["arms"]
    await client.post("/v1/sessions/s/act")
    settled = (await arms(client, "/v1/sessions/s"))["arms"]

    assert sum(row["expired"] for row in seen) == 10
    assert [row["expired"] for row in seen] == [row["expired"] for row in settled]
    for row in seen:
        ended = row["expired"] + row["feedbacks"]
        assert row["mean_loss"] == pytest.approx((0.25 * row["expired"] + row["feedbacks"]) / ended)
    assert [row["mean_loss"] for row in settled] == [row["mean_loss"] for row in seen]


async def test_counts_of_all_arms_there_were_add_up_to_the_sessions(make_client):
    """Removed arms are not listed; what is counted of them stays."""
    store = MemoryStore()
    client = await make_client(store)
    body = {"session_id": "s", "learner": {"kind": "dexp3", "arms": LABELS}, "seed": 5}
    await client.post("/v1/sessions", json=body)
    for change in ({"remove": ["b"]}, {"add": ["e"]}, {"remove": ["e", "a"], "add": ["b"]}):
        actions = (await client.post("/v1/sessions/s/acts", json={"count": 9})).json()["actions"]
        events = [{"arm": action["arm"], "loss": 0.5} for action in actions[::2]]
        await client.post("/v1/sessions/s/feedbacks", json={"events": events})
        await client.patch("/v1/sessions/s/arms", json=change)
    view = (await client.get("/v1/sessions/s")).json()
    listed = (await arms(client, "/v1/sessions/s"))["arms"]

    total = ArmCounts(*map(sum, zip(*(await store.read_counts("s", range(6))).rows, strict=True)))

    assert [row["label"] for row in listed] == ["c", "d", "b"]
    assert (total.feedbacks, total.expired) == (view["feedbacks"], view["expired"])
    assert (total.removed, total.voided) == (view["removed"], 0)
    assert sum(row["outstanding"] for row in listed) == view["outstanding"]


async def test_slots_dropped_because_too_many_are_open_count_as_expired(client, create):
    learner = {"kind": "exp3", "n_arms": 3, "learning_rate": 0.1, "max_open_slots": 4}
    path = await create(learner=learner)
    await client.post(f"{path}/acts", json={"count": 30})

    rows = (await arms(client, path))["arms"]

    assert sum(row["expired"] for row in rows) == 26
    assert all(row["acts"] == row["outstanding"] + row["expired"] for row in rows)


@pytest.mark.parametrize("cursor", ["", "x", "acts~", "acts~1", "index~-1", "index~9999999999"])
async def test_a_cursor_of_another_list_is_refused(client, create, cursor):
    answer = await client.get(f"{await create()}/arms", params={"cursor": cursor})

    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, "cursor")


async def test_sessions_over_points_have_no_arms(client, create):
    path = await create(learner={"kind": "dbgd", "dim": 2, "feasible_set": {"kind": "ball", "radius": 1.0}})

    assert (await client.get(f"{path}/arms")).status_code == 422
    assert (await client.get("/v1/sessions/nobody/arms")).status_code == 404


async def test_many_arms_are_sorted_by_what_is_counted_of_them(client, create):
    path = await create(learner={"kind": "dexp3", "n_arms": 2500})
    actions = (await client.post(f"{path}/acts", json={"count": 300})).json()["actions"]
    acts = [0] * 2500
    for action in actions:
        acts[action["arm"]] += 1

    page = await arms(client, path, sort="-acts", limit=3)

    assert [row["arm"] for row in page["arms"]] == sorted(range(2500), key=lambda arm: (-acts[arm], arm))[:3]
    assert json.dumps(page)


async def test_rewards_are_means_of_rewards_and_voids_count_in_neither(client, create):
    path = await create(learner={"kind": "dexp3", "n_arms": 1}, reward_range=[-1, 3])
    await client.post(f"{path}/acts", json={"count": 4})
    events = [{"arm": 0, "reward": reward} for reward in (3, None, 0)]
    await client.post(f"{path}/feedbacks", json={"events": events})

    (row,) = (await arms(client, path))["arms"]

    assert (row["acts"], row["outstanding"], row["feedbacks"], row["expired"]) == (4, 1, 2, 0)
    assert row["mean_reward"] == pytest.approx(1.5)
    assert "mean_loss" not in row


# -- Sessions with a hint.


async def with_hints(client):
    """Sessions of which every third waits in vain for feedback, and one is damaged."""
    for number in range(9):
        session_id = f"s{number}"
        learner = {"kind": "centred_tsallis", "arms": ['{"code":"no_feedback",']}
        await client.post("/v1/sessions", json={"session_id": session_id, "learner": learner})
        if number % 3 == 0:
            await client.post(f"/v1/sessions/{session_id}/acts", json={"count": 100})


async def listed_with(client, hint, limit):
    found = []
    async for page in pages(client, "/v1/sessions", hint=hint, limit=limit):
        assert len(page["sessions"]) <= limit
        found += [each["session_id"] for each in page["sessions"]]
    return sorted(found)


@pytest.mark.parametrize("seconds", [0, 30])
@pytest.mark.parametrize("limit", [1, 2, 1000])
async def test_sessions_with_a_hint_are_listed_alone(make_client, store, monkeypatch, limit, seconds):
    monkeypatch.setattr(session_pages, "LOOK_SECONDS", seconds)
    client = await make_client(store)
    await with_hints(client)

    assert await listed_with(client, "no_feedback", limit) == ["s0", "s3", "s6"]
    assert await listed_with(client, "late_events", limit) == []


async def test_a_session_that_can_not_be_read_has_no_hints_and_one_of_another_form_has(make_client):
    memory = MemoryStore()
    client = await make_client(memory)
    await with_hints(client)
    memory._sessions["s0"].state = b"broken"
    memory._sessions["s3"].about = b"{}"

    assert await listed_with(client, "no_feedback", 100) == ["s3", "s6"]


@pytest.mark.parametrize("hint", ["nothing", "", "NO_FEEDBACK"])
async def test_a_hint_that_there_is_not_is_refused(client, hint):
    assert (await client.get("/v1/sessions", params={"hint": hint})).status_code == 422
