"""Arms added, removed and replaced over HTTP: the answer, numbers, keys, limits, and feedback still under way."""

import asyncio
import random
from collections import Counter
from functools import partial

import pytest

from service.commit.cache import CachedSession
from service.engine.ledger import ArmFeedback, Params
from service.engine.run import start_run
from service.learners import REGISTRY
from service.store.memory import MemoryStore
from tests.support.examples import some_quick
from tests.support.one_session import KINDS, PATH, acts, change, replace, view
from tests.support.one_session import session as session_of_four


async def session(client, *, kind="dexp3", arms=("a", "b", "c"), **fields):
    return await session_of_four(client, kind=kind, arms=list(arms), **fields)


def balanced(seen):
    """Whether each act has ended as one of four things, or is outstanding."""
    return seen["slot"] == seen["feedbacks"] + seen["expired"] + seen["removed"] + seen["outstanding"]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_change_answers_with_the_view_it_makes(client, kind):
    created = await session(client, kind=kind)
    actions = (await client.post(f"{PATH}/acts", json={"count": 9})).json()["actions"]

    changed = await change(client, add=["x", "y"], remove=["b"])

    assert changed == await view(client)
    assert changed["version"] != created["version"]
    assert (changed["learner"]["n_arms"], changed["learner"]["arms"]) == (4, ["a", "c", "x", "y"])
    assert changed["learner"]["arm_indexes"] == [0, 2, 3, 4]
    assert changed["probabilities"] == pytest.approx([0.25] * 4)
    assert changed["removed"] == sum(action["label"] == "b" for action in actions)
    assert balanced(changed)


async def test_the_idle_deadline_is_put_off(client):
    created = await session(client, idle_ttl_seconds=100.0)

    unchanged = await change(client, remove=["zz"])
    changed = await change(client, add=["x"])

    assert unchanged["expires_at"] == created["expires_at"]
    assert changed["expires_at"] >= created["expires_at"]


@pytest.mark.parametrize("body", [{}, {"add": []}, {"remove": ["zz", ""]}, {"add": ["a"], "remove": []}])
async def test_what_changes_nothing_is_no_commit(client, body):
    created = await session(client)

    changed = await change(client, **body)

    assert changed.pop("unknown", []) == body.get("remove", [])
    assert changed == created == await view(client)


async def test_a_label_that_comes_back_is_a_new_arm(client):
    await session(client)
    actions = (await client.post(f"{PATH}/acts", json={"count": 9})).json()["actions"]
    assert {action["label"] for action in actions} == {"a", "b", "c"}
    old = sum(action["label"] == "b" for action in actions)

    changed = await change(client, add=["b"], remove=["b"])
    assert (changed["removed"], changed["learner"]["arms"]) == (old, ["a", "c", "b"])
    by_index = (await client.post(f"{PATH}/feedback", json={"arm": 1, "loss": 0.5})).json()
    by_label = await client.post(f"{PATH}/feedback", json={"label": "b", "loss": 0.5})
    drawn = set()
    while "b" not in drawn:
        action = (await client.post(f"{PATH}/act")).json()
        drawn.add(action["label"])
        assert action["arm"] == (3 if action["label"] == "b" else "abc".index(action["label"]))
    applied = (await client.post(f"{PATH}/feedback", json={"label": "b", "loss": 0.5})).json()

    assert (by_index["applied"], by_index["removed"]) == (0, 1)
    assert (by_label.status_code, by_label.json()["code"]) == (409, "surplus_feedback")
    assert (applied["applied"], "removed" in applied) == (1, False)


async def test_posting_the_session_again_finds_it_with_its_arms_changed(client):
    await session(client)
    changed = await change(client, add=["x"], remove=["a"])

    body = {"session_id": "s", "learner": {"kind": "dexp3", "arms": ["a", "b", "c"]}, "seed": 7}
    again = await client.post("/v1/sessions", json=body)

    assert (again.status_code, again.json()) == (200, changed)


async def test_a_key_shows_the_session_as_it_was_created_whatever_arms_it_has_now(client):
    body = {"session_id": "s", "learner": {"kind": "dexp3", "arms": ["a", "b", "c"]}}
    post = partial(client.post, "/v1/sessions", json=body, headers={"Idempotency-Key": "k"})
    created = await post()
    await replace(client, ["b", "x"])
    again = await post()

    assert (again.status_code, again.json()) == (201, created.json())


async def test_an_idempotency_key_changes_arms_once_also_where_they_change_in_between_or_nothing_does(client):
    await session(client)
    key = {"Idempotency-Key": "k"}

    first = await change(client, add=["x"], headers=key)
    await change(client, remove=["x"])
    again = await change(client, add=["x"], headers=key)
    nothing = [await change(client, add=["a"], headers={"Idempotency-Key": "n"}) for _ in range(2)]

    assert again == first
    assert nothing == [await view(client)] * 2
    assert nothing[0]["learner"]["arms"] == ["a", "b", "c"]
    assert "arm_indexes" not in nothing[0]["learner"]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_session_gives_the_numbers_of_the_learner_driven_in_process(client, kind):
    await session(client, kind=kind)
    spec = REGISTRY[kind].model_validate({"kind": kind, "arms": ["a", "b", "c"]} | KINDS[kind])
    run, rng = start_run(Params(spec, 7)), random.Random(3)

    for number in range(36):
        action = (await client.post(f"{PATH}/act")).json()
        own = run.act()
        assert (action["slot"], action["arm"], action["probability"]) == own[:3]
        if rng.random() < 0.7:
            loss = rng.random()
            await client.post(f"{PATH}/feedback", json={"arm": action["arm"], "loss": loss, "slot": action["slot"]})
            run.settle(ArmFeedback(own.arm, loss, own.slot))
        if number % 9 == 8:
            await change(client, add=[f"n{number}"], remove=[f"n{number - 18}", "b"])
            run.change_arms(run.arms.change([f"n{number}"], [f"n{number - 18}", "b"]))
        assert (await view(client))["probabilities"] == run.probabilities.tolist()


@pytest.mark.parametrize("kind", KINDS)
async def test_a_catalogue_is_exchanged_whole(client, kind):
    """Also where no arm stays: the new ones come before the old ones go."""
    await session_of_four(client, kind=kind)
    actions = (await acts(client, count=9))["actions"]

    some = await replace(client, ["d", "x", "a"])
    all_new = await replace(client, ["u", "v"])

    assert some["learner"]["arms"] == ["a", "d", "x"]
    assert sum(some["probabilities"]) == pytest.approx(1)
    assert some["removed"] == sum(action["label"] in {"b", "c"} for action in actions)
    assert (all_new["learner"]["arms"], all_new["learner"]["arm_indexes"]) == (["u", "v"], [5, 6])
    assert (all_new["probabilities"], all_new["removed"]) == (pytest.approx([0.5, 0.5]), 9)
    assert {action["label"] for action in (await acts(client, count=1))["actions"]} <= {"u", "v"}


async def test_a_catalogue_leaves_pauses_as_they_are(client):
    await session_of_four(client)
    await change(client, pause=["a", "b"])

    kept = await replace(client, ["a", "c", "x"])
    refused = await replace(client, ["a"], 422)

    assert kept["paused"] == ["a"]
    assert [error["field"] for error in refused["errors"]] == ["arms"]
    assert (await view(client))["learner"]["arms"] == ["a", "c", "x"]


@pytest.mark.parametrize("arms", [[], [""], ["a\n"], ["x" * 129], [1], "a", None, ["a", None]])
async def test_bad_catalogues_are_refused(client, arms):
    before = await session_of_four(client)

    answer = await replace(client, arms, 422)

    assert answer["errors"][0]["field"].split(".")[0] == "arms"
    assert await view(client) == before


async def test_limits_are_judged_on_the_result(make_client):
    client = await make_client(max_arms_centred=4, max_arms_ever=9)
    await session_of_four(client)

    await replace(client, ["p", "q", "r", "s"])
    five = await replace(client, ["p", "q", "r", "s", "t"], 422)
    ever = await replace(client, ["t", "u"], 422)
    last = await change(client, add=["t"], remove=["p"])
    patched = await change(client, 422, add=["u"], remove=["q"])
    fewer = await replace(client, ["t", "s"])

    assert five["errors"][0]["message"] == "there may be at most 4 arms"
    for answer, field in ((ever, "arms"), (patched, "add")):
        assert answer["errors"][0]["field"] == field
        assert "at most 9 arms, removed ones included" in answer["errors"][0]["message"]
        assert "BANDIT_MAX_ARMS_EVER" in answer["errors"][0]["message"]
    assert last["learner"]["arm_indexes"] == [5, 6, 7, 8]
    assert fewer["learner"]["arms"] == ["s", "t"]


async def test_a_session_begins_within_the_arms_it_may_ever_have(make_client):
    client = await make_client(max_arms_ever=2)
    learner = {"kind": "centred_tsallis", "arms": ["a", "b", "c"]}

    answer = await client.post("/v1/sessions", json={"learner": learner})

    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, "learner.n_arms")
    assert "BANDIT_MAX_ARMS_EVER" in answer.json()["detail"]
    assert (await client.post("/v1/sessions", json={"learner": learner | {"arms": ["a", "b"]}})).status_code == 201


@pytest.mark.parametrize(
    "body",
    [
        {"remove": ["a", "b", "c"]},
        {"remove": ["a", "b", "c"], "add": ["x"]},
        *({"add": labels} for labels in ([""], ["tab\t"], ["é" * 65], [1], "x")),
        {"remove": [True]},
        {"drop": ["a"]},
        {"add": ["one", "too", "many"]},
    ],
)
async def test_bad_changes_are_refused_whole(make_client, body):
    client = await make_client(max_arms=5)
    created = await session(client)

    problem = await change(client, 422, **body)

    assert problem["code"] == "invalid_request"
    assert await view(client) == created


async def test_limits_count_the_arms_there_are_and_in_the_end_those_there_were(make_client):
    client = await make_client(max_arms_centred=3)
    await session(client, kind="centred_tsallis")
    await change(client, 422, add=["x"])
    await change(client, add=["é" * 64], remove=["a"])

    for number in range(26):
        await change(client, add=[f"n{number + 1}"], remove=[f"n{number}" if number else "b"])
    problem = await change(client, 422, add=["last"], remove=["c"])

    assert "removed ones included" in problem["detail"]


@pytest.mark.parametrize("kind", ["dexp3", "centred_tsallis"])
async def test_what_adds_no_arm_is_refused_by_no_limit_however_large_the_session_is(make_client, kind):
    store = MemoryStore()
    large = await make_client(store)
    await session(large, kind=kind, arms=[*"abcdefgh"])
    for number in range(30):
        await change(large, add=[f"n{number}"], remove=[f"n{number - 1}"])
    small = await make_client(store, max_arms=3, max_arms_centred=3)

    assert (await change(small, add=["n29", "h"], remove=["a"]))["learner"]["n_arms"] == 8
    await change(small, remove=["b", "c", "d"])
    assert (await change(small, 422, add=["x"], remove=["h"]))["detail"] == "add: there may be at most 3 arms"
    assert (await change(small, remove=["e", "f", "g"]))["learner"]["n_arms"] == 2


@pytest.mark.parametrize(
    "learner",
    [{"kind": "dexp3", "n_arms": 3}, {"kind": "dbgd", "dim": 2, "feasible_set": {"kind": "ball", "radius": 1.0}}],
)
async def test_sessions_without_labels_keep_their_arms(client, learner):
    await client.post("/v1/sessions", json={"session_id": "s", "learner": learner})

    assert (await change(client, 409, add=["x"]))["code"] == "no_labels"
    assert (await change(client, 409))["code"] == "no_labels"
    assert (await change(client, 409, pause=["a"]))["code"] == "no_labels"
    assert (await replace(client, ["a"], 409))["code"] == "no_labels"
    assert (await change(client, 422, more=[]))["code"] == "invalid_request"


async def test_feedback_in_flight_of_a_removed_arm_is_a_success_that_changes_nothing(client):
    await session(client)
    await client.post(f"{PATH}/acts", json={"count": 9})
    await change(client, remove=["a"])
    before = await view(client)
    late = {"label": "a", "loss": 0.5, "event_id": "late"}

    first = (await client.post(f"{PATH}/feedback", json=late)).json()
    again = (await client.post(f"{PATH}/feedback", json=late)).json()
    nameless = (await client.post(f"{PATH}/feedback", json={"arm": 0, "loss": 1})).json()
    events = [late, {"arm": 0, "loss": 0.1}, {"arm": 1, "loss": 0.5, "event_id": "b"}, {"label": "a", "loss": 0}]
    mixed = (await client.post(f"{PATH}/feedbacks", json={"events": events})).json()
    after = await view(client)

    counts = {"slot": 9, "outstanding": before["outstanding"]}
    assert first == {"applied": 0, "duplicates": 0, "removed": 1} | counts
    assert again == {"applied": 0, "duplicates": 1} | counts
    assert nameless == {"applied": 0, "duplicates": 0, "removed": 1} | counts
    left = counts["outstanding"] - 1
    assert mixed == {"applied": 1, "duplicates": 1, "removed": 2, "slot": 9, "outstanding": left}
    assert (after["removed"], after["feedbacks"]) == (before["removed"], 1)
    assert balanced(after)


async def test_a_refused_batch_records_nothing_of_removed_arms(client):
    await session(client)
    await client.post(f"{PATH}/act")
    await change(client, remove=["a"])
    late = {"label": "a", "loss": 0.5, "event_id": "late"}

    refused = await client.post(f"{PATH}/feedbacks", json={"events": [late] + [{"arm": 1, "loss": 0}] * 9})
    events = [late] + [{"arm": 1, "loss": 0}] * 9
    skipped = await client.post(f"{PATH}/feedbacks?on_surplus=skip", json={"events": events})
    wrong = await client.post(f"{PATH}/feedback", json={"label": "a", "loss": 7})

    assert refused.status_code == 409
    assert 0 not in refused.json()["indexes"]
    assert (skipped.json()["removed"], skipped.json()["duplicates"]) == (1, 0)
    assert wrong.status_code == 422


@pytest.mark.parametrize("kind", ["exp3", "bold"])
async def test_open_slots_of_removed_arms_are_closed(client, kind):
    await session(client, kind=kind)
    actions = (await client.post(f"{PATH}/acts", json={"count": 12})).json()["actions"]
    await change(client, remove=["a"])

    for action in actions:
        event = {"arm": action["arm"], "loss": 0.5, "slot": action["slot"]}
        answer = (await client.post(f"{PATH}/feedback", json=event)).json()
        assert (answer["applied"], answer.get("removed", 0)) == ((0, 1) if action["label"] == "a" else (1, 0))
    seen = await view(client)

    assert (seen["outstanding"], seen["feedbacks"] + seen["removed"]) == (0, 12)


@pytest.mark.parametrize("kind", some_quick(KINDS, ["exp3", "clw"]))
async def test_counts_balance_with_expiry_and_changes(client, clock, kind):
    default = None if kind in ("clw", "dexp3") else 1.0
    await session(client, kind=kind, expiry={"after_seconds": 64.0, "default_loss": default})
    rng, taken, labels = random.Random(kind), [], ["a", "b", "c"]
    for number in range(100):
        clock.now += rng.uniform(0, 6)
        taken.append((await client.post(f"{PATH}/act")).json())
        if rng.random() < 0.5:
            given = taken.pop(rng.randrange(len(taken)))
            event = {"arm": given["arm"], "loss": rng.random(), "slot": given["slot"]}
            assert (await client.post(f"{PATH}/feedback", json=event)).status_code == 200
        if rng.random() < 0.1:
            leaving = rng.sample(labels, min(len(labels) - 1, rng.randrange(3)))
            await change(client, add=[f"n{number}"], remove=leaving)
            labels = [label for label in labels if label not in leaving] + [f"n{number}"]
        seen = await view(client)
        assert balanced(seen)
        assert seen["outstanding"] >= 0
        assert sum(seen["probabilities"]) == pytest.approx(1, abs=1e-12)
        assert seen["learner"]["arms"] == labels
    clock.now += 200
    seen = await view(client)

    assert (seen["outstanding"], balanced(seen)) == (0, True)
    assert seen["removed"] > 0
    assert seen["expired"] > 0


async def test_two_processes_change_arms_under_load_and_every_count_balances(make_client, store):
    """Random visits while arms come and go, each event sent to both; each act ends as one of four things."""
    clients, rng = [await make_client(store) for _ in range(2)], random.Random(11)
    left, settled = Counter(), Counter()
    await session(clients[0], kind="centred_tsallis")

    async def visit(number):
        action = (await rng.choice(clients).post(f"{PATH}/act")).json()
        left[action["arm"]] += 1
        event = {"arm": action["arm"], "loss": rng.random(), "event_id": f"{number}"}
        first, again = [(await each.post(f"{PATH}/feedback", json=event)).json() for each in clients]
        assert (again["applied"], again["duplicates"]) == (0, 1)
        settled[action["arm"]] += first["applied"]

    async def changes():
        for number in range(30):
            assert balanced(await change(clients[number % 2], add=[f"n{number}"], remove=[f"n{number - 2}"]))

    await asyncio.gather(changes(), *(visit(number) for number in range(100)))
    shown, other = [await view(client) for client in clients]

    assert shown == other
    assert balanced(shown)
    assert (shown["slot"], shown["feedbacks"]) == (100, settled.total())
    run = CachedSession.of(await store.load("s")).run
    left -= settled
    assert run.ledger.by_arm.tolist() == [left[arm] for arm in run.arms.live]
    assert run.ledger.removed == sum(count for arm, count in left.items() if not run.arms.is_live(arm))
    await clients[0].delete(PATH)
