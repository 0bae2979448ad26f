"""Updates and goals: an applied event may come again with a better outcome, and counts once, at its best."""

import random
from collections import Counter

import pytest

from service.engine.ledger import ArmFeedback
from service.engine.run import start_run
from service.models.specification import Specification
from service.store.memory import MemoryStore
from tests.support.changed_documents import sealed
from tests.support.machines import FIELDS
from tests.support.one_session import PATH, made, moved, patch, settled, view

DAY = 86_400
REWARDS = {"reward_range": [0, 1], "updates": {"within_seconds": 3 * DAY}}
WINDOW = {"after_seconds": 64, "default_reward": 0}
GOALS = {"click": 0.2, "cart": 0.4, "purchase": 1.0}
KINDS = {
    "multiscale_tsallis": {},
    "provisional": {"expiry": WINDOW},
    "waiting": {"expiry": WINDOW | {"provisional": False}},
    "centred_tsallis": {"expiry": WINDOW | {"default_reward": None}},
    "fixed": {},
    "segments": {"segments": {"max": 9}, "expiry": WINDOW},
    "centred_tsallis segments": {"segments": {"max": 9}},
}


def body_of(kind="multiscale_tsallis", **fields):
    name = kind.split()[0] if kind.split()[0] in ("centred_tsallis", "fixed") else "multiscale_tsallis"
    learner = {"kind": name, "arms": ["a", "b", "c"]}
    return {"session_id": "s", "learner": learner, "seed": 5} | REWARDS | KINDS.get(kind, {}) | fields


async def created(client, kind="multiscale_tsallis", acts=12, segment=None, **fields):
    await made(client, **body_of(kind, **fields))
    named = {} if segment is None else {"segment": segment}
    actions = (await client.post(f"{PATH}/acts", json={"count": acts, **named})).json()["actions"]
    return [action["arm"] for action in actions]


def event(arm, reward, event_id="one", **fields):
    return {"arm": arm, "reward": reward, "event_id": event_id, **fields}


@pytest.mark.parametrize("kind", KINDS)
async def test_a_better_event_is_learned_in_the_place_of_the_earlier_one(client, kind):
    """Beside it a run in process does the same; after the window too, without an outstanding decision."""
    segment = {"segment": "x"} if "segments" in kind else {}
    arms = await created(client, kind, segment=segment.get("segment"))
    fields = {name: value for name, value in body_of(kind).items() if name != "session_id"}
    run = start_run(Specification.model_validate(fields).decided().params(5))
    assert [run.act(None, *segment.values()).arm for _ in arms] == arms
    first = [event(arm, 0.1 * (n % 4), str(n), **segment) for n, arm in enumerate(arms[:9])]
    assert await settled(client, *first) == {"applied": 9, "outstanding": 3}
    for each in first:
        run.settle(ArmFeedback(each["arm"], 1 - each["reward"], None, False, segment.get("segment", "")))
    again = [event(arms[4], 0.9, "4", **segment), event(arms[1], 0.1, "1", **segment)]
    worse = [event(arms[7], 0.2, "7", **segment)]
    assert await settled(client, *again, *worse) == {"updated": 1, "duplicates": 2, "outstanding": 3}
    run.update(ArmFeedback(arms[4], 1 - 0.9, None, False, segment.get("segment", "")), 1 - 0.0)
    await client.post(f"{PATH}/act", json=segment)
    run.act(None, *segment.values())

    shown = await view(client)

    assert shown["probabilities"] == run.probabilities.tolist()
    assert shown["updates"] == {"within_seconds": 3 * DAY}
    rewards = [each["reward"] for each in first]
    rewards[4] = 0.9
    assert shown["mean_reward"] == pytest.approx(sum(rewards) / 9)
    rows = {row["arm"]: row for row in (await view(client, f"{PATH}/arms"))["arms"]}
    for arm in set(arms[:9]):
        own = [reward for reward, at in zip(rewards, arms, strict=False) if at == arm]
        assert (rows[arm]["feedbacks"], rows[arm]["mean_reward"]) == (len(own), pytest.approx(sum(own) / len(own)))
    if segment:
        (row,) = (await view(client, f"{PATH}/segments"))["segments"]
        assert (row["feedbacks"], row["mean_reward"]) == (9, pytest.approx(sum(rewards) / 9))


async def test_an_update_needs_no_decision_and_may_come_after_the_window_and_the_dedupe_window(client, clock):
    arms = await created(client, "provisional")
    await settled(client, event(arms[0], 0.5))
    clock.now += 2 * DAY

    assert await settled(client, event(arms[0], 0.7)) == {"updated": 1}
    assert (await view(client))["expired"] == 11


async def test_the_time_counts_from_the_first_application(client, clock):
    arms = await created(client)
    await settled(client, event(arms[0], 0.1), event(arms[1], 0.1, "two"))
    clock.now += 2 * DAY
    assert (await settled(client, event(arms[0], 0.2)))["updated"] == 1
    clock.now += DAY
    assert (await settled(client, event(arms[1], 0.2, "two")))["updated"] == 1
    clock.now += 1

    assert (await settled(client, event(arms[0], 0.3), event(arms[1], 0.3, "two")))["duplicates"] == 2


async def test_two_of_one_id_in_one_batch_are_taken_in_order(client):
    arms = await created(client)

    answer = await settled(client, *[event(arms[0], reward) for reward in (0.5, 0.4, 0.7, 0.7, 0.9)])

    assert answer == {"applied": 1, "updated": 2, "duplicates": 2, "outstanding": 11}
    assert (await view(client))["mean_reward"] == 0.9


async def test_what_was_stored_for_an_id_counts(client):
    arms = await created(client, "segments", segment="x")
    await settled(client, event(arms[0], 0.5, segment="x"))
    other = next(arm for arm in range(3) if arm != arms[0])

    again = event(arms[0], 0.9)
    answer = await settled(client, event(other, 0.9, segment="x"), again | {"segment": "y"}, again)

    assert answer == {"duplicates": 3, "outstanding": 11}
    assert (await settled(client, event(arms[0], 0.9, segment="x")))["updated"] == 1


async def test_voids_and_what_follows_a_void_are_duplicates(client):
    arms = await created(client)
    await settled(client, event(arms[0], 0.5), event(arms[1], None, "void"))

    answer = await settled(client, event(arms[0], None), event(arms[1], 0.9, "void"))

    assert answer == {"duplicates": 2, "outstanding": 10}


async def test_of_a_removed_arm_a_better_event_is_removed_and_any_other_a_duplicate(client):
    arms = await created(client)
    await settled(client, event(arms[0], 0.5))
    label = "abc"[arms[0]]
    await client.patch(f"{PATH}/arms", json={"remove": [label]})
    late = {"label": label, "reward": 0.5, "event_id": "late"}

    outstanding = (await view(client))["outstanding"]
    both = await settled(client, event(arms[0], 0.5), event(arms[0], 0.4))
    assert both == {"duplicates": 2, "outstanding": outstanding}
    assert (await settled(client, event(arms[0], 0.8), late))["removed"] == 2
    assert (await settled(client, event(arms[0], 0.8), late | {"reward": 0.9}))["duplicates"] == 2
    assert (await view(client))["mean_reward"] == 0.5


async def test_a_label_is_known_as_removed_while_its_events_may_be_improved(client, clock):
    arms = await created(client)
    await settled(client, event(arms[0], 0.5))
    label = "abc"[arms[0]]
    await client.patch(f"{PATH}/arms", json={"remove": [label]})
    clock.now += 3 * DAY - 1
    late = {"label": label, "reward": 0.9, "event_id": "one"}
    assert (await settled(client, late))["removed"] == 1
    clock.now += 2

    assert (await settled(client, late, status=422))["errors"][0]["field"] == "label"


async def test_sessions_without_updates_count_an_id_once(client):
    await client.post("/v1/sessions", json=body_of(updates=None))
    arm = (await client.post(f"{PATH}/act")).json()["arm"]

    assert "updates" not in await view(client)
    assert (await settled(client, event(arm, 0.1), event(arm, 0.9)))["duplicates"] == 1


@pytest.mark.parametrize(
    ("learner", "updates", "field"),
    [
        ({"kind": "dexp3", "n_arms": 3}, {"within_seconds": 60}, "updates"),
        ({"kind": "tsallis_delayed", "n_arms": 3}, {"within_seconds": 60}, "updates"),
        ({"kind": "fixed", "n_arms": 3}, {"within_seconds": 0}, "updates.within_seconds"),
        ({"kind": "fixed", "n_arms": 3}, {"within_seconds": 31_536_001}, "updates.within_seconds"),
        ({"kind": "fixed", "n_arms": 3}, {"within_seconds": 1.5}, "updates.within_seconds"),
        ({"kind": "fixed", "n_arms": 3}, {}, "updates.within_seconds"),
    ],
)
async def test_updates_that_do_not_fit_are_refused(client, learner, updates, field):
    answer = await client.post("/v1/sessions", json={"learner": learner, "updates": updates})

    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, field)


async def test_updates_and_goals_go_on_in_another_store(client, make_client, clock):
    arms = await created(client, "segments", segment="x", goals=GOALS)
    await settled(client, *[{"arm": arms[n], "goal": "cart", "event_id": str(n), "segment": "x"} for n in (0, 1)])
    await settled(client, event(arms[1], None, "void", segment="x"))
    clients = [client, await make_client(MemoryStore(clock=clock))]
    await moved(*clients)
    clock.now += 2 * DAY
    again = {"arm": arms[0], "goal": "purchase", "event_id": "0", "segment": "x"}
    lower = {"arm": arms[1], "goal": "click", "event_id": "1", "segment": "x"}

    answers = [await settled(each, again, lower, event(arms[1], 1, "void", segment="x")) for each in clients]

    assert answers[0] == answers[1] == {"updated": 1, "duplicates": 2}
    shown = [{**await view(each), "version": None} for each in clients]
    assert (shown[0], shown[0]["goals"]["purchase"]) == (shown[1], {"value": 1.0, "events": 1})


async def test_values_of_ids_are_not_imported_without_updates(client):
    await settled(client, event((await created(client))[0], 0.5))
    document = (await client.get(f"{PATH}/export")).json()
    await client.delete(PATH)
    document["specification"]["specification"].pop("updates")

    answer = await client.post("/v1/sessions/import", json=sealed(document))

    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, "event_ids")


async def test_an_update_is_logged_with_its_new_loss(client):
    arms = await created(client, decision_log={"max_entries": 99}, goals=GOALS)
    await settled(client, event(arms[0], 0.5, slot=1), event(arms[0], 0.9, slot=1))
    await settled(client, {"arm": arms[0], "goal": "purchase", "event_id": "one"})

    entries = (await view(client, f"{PATH}/decisions"))["decisions"][13:]

    applied = {"kind": "event", "arm": arms[0], "reward": 0.5, "outcome": "applied", "event_id": "one"}
    applied["session_id"] = "s"
    assert [{name: value for name, value in each.items() if name != "at"} for each in entries] == [
        applied | {"slot": 1, "position": 14},
        applied | {"reward": 0.9, "outcome": "updated", "position": 15},
        applied | {"reward": 1.0, "outcome": "updated", "position": 16},
    ]


async def test_a_value_changed_by_hand_is_found(make_client):
    store = MemoryStore()
    client = await make_client(store)
    arms = await created(client)
    await settled(client, event(arms[0], 0.5))
    seen = store._sessions["s"].seen
    ((name, (until, value)),) = seen.items()
    seen[name] = (until, value[:-1] + b"?")

    assert (await settled(client, event(arms[0], 0.9), status=500))["code"] == "state_corrupt"


@pytest.mark.parametrize("seed", range(4))
async def test_whatever_comes_in_whatever_order_agrees_with_a_plain_model(client, seed):
    """Of each id: its arm, and its best reward; None after a void, or a first event of a removed arm."""
    drawn = random.Random(seed)
    arms, known, counted = await created(client, "provisional", acts=60), {}, Counter()
    outstanding, removed = Counter(arms), set()
    for turn in range(12):
        if turn == 6:
            await client.patch(f"{PATH}/arms", json={"remove": ["b"], "add": ["d"]})
            removed.add(1)
            defaulted = outstanding.pop(1)
        events, expected = [], Counter()
        for _ in range(drawn.randint(1, 12)):
            name, arm = str(drawn.randrange(40)), drawn.randrange(3)
            arm = known[name][0] if name in known and drawn.random() < 0.8 else arm
            reward = None if drawn.random() < 0.1 else drawn.randrange(9) / 8
            events.append(event(arm, reward, name))
            if name in known:
                first, best = known[name]
                is_better = arm == first and None not in (best, reward) and reward > best
                outcome = ("removed" if arm in removed else "updated") if is_better else "duplicates"
                known[name] = (first, reward if is_better else best)
            elif arm in removed or outstanding[arm] > 0:
                outcome = "removed" if arm in removed else "voided" if reward is None else "applied"
                outstanding[arm] -= arm not in removed
                known[name] = (arm, reward if outcome == "applied" else None)
            else:
                outcome = "surplus"
            expected[outcome] += 1
            if outcome in ("applied", "updated"):
                counted[name] = (arm, reward)
        answer = await settled(client, *events)
        assert {name: answer.get(name, 0) for name in expected} == expected
    total, count = sum(reward for _, reward in counted.values()), len(counted) + defaulted
    assert (await view(client))["mean_reward"] == pytest.approx(total / count)
    for row in (await view(client, f"{PATH}/arms"))["arms"]:
        own = [reward for arm, reward in counted.values() if arm == row["arm"]]
        assert row["mean_reward"] == (pytest.approx(sum(own) / len(own)) if own else None)


# -- Goals.


async def test_goals_stand_for_rewards_and_are_counted(client):
    arms = await created(client, goals=GOALS)
    assert (await view(client))["goals"]["cart"] == {"value": 0.4, "events": 0}
    one = {"arm": arms[0], "event_id": "one"}

    answer = await settled(
        client,
        one | {"goal": "click"},
        one | {"goal": "purchase"},
        one | {"goal": "cart"},
        {"label": "abc"[arms[1]], "goal": "click"},
        event(arms[2], 0.4, "plain"),
    )

    assert answer == {"applied": 3, "updated": 1, "duplicates": 1, "outstanding": 9}
    shown = await view(client)
    events = {name: goal["events"] for name, goal in shown["goals"].items()}
    assert (events, shown["mean_reward"]) == ({"click": 2, "cart": 0, "purchase": 1}, pytest.approx(1.6 / 3))
    (listed,) = (await client.get("/v1/sessions")).json()["sessions"]
    assert listed["goals"] == shown["goals"]


@pytest.mark.parametrize("kind", FIELDS)
async def test_goals_are_for_all_learners_over_arms(client, kind):
    learner = {"kind": kind, "n_arms": 3} | FIELDS[kind]
    body = {"session_id": "s", "learner": learner, "loss_range": [0, 10], "goals": {"late": 7, "lost": 10}}
    created = await client.post("/v1/sessions", json=body)
    assert created.status_code == 201, created.text
    action = (await client.post(f"{PATH}/act")).json()

    posted = {"arm": action["arm"], "slot": action["slot"], "goal": "late"}
    assert (await client.post(f"{PATH}/feedback", json=posted)).json()["applied"] == 1

    shown = await view(client)
    assert (shown["mean_loss"], shown["goals"]["late"]) == (7.0, {"value": 7.0, "events": 1})


async def test_an_unknown_goal_is_refused_with_the_names(client):
    goals = {f"g{n}": n / 20 for n in range(12)}
    posted = {"arm": (await created(client, goals=goals))[0], "goal": "nothing"}

    answer = await client.post(f"{PATH}/feedback", json=posted)
    skipped = await client.post(f"{PATH}/feedbacks?on_invalid=skip", json={"events": [posted]})

    (error,) = answer.json()["errors"]
    assert (answer.status_code, error["field"]) == (422, "goal")
    assert "g9" in error["message"]
    assert "g10" not in error["message"]
    assert skipped.json()["invalid"] == 1


@pytest.mark.parametrize("more", [{"reward": 1}, {"loss": 0}, {"reward": None}, {"goal": None}, {"goal": ""}])
async def test_an_event_has_one_outcome(client, more):
    arms = await created(client, goals=GOALS)

    answer = await client.post(f"{PATH}/feedback", json={"arm": arms[0], "goal": "click"} | more)

    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"] in more


async def test_a_session_without_goals_says_so(client):
    answer = await client.post(f"{PATH}/feedback", json={"arm": (await created(client))[0], "goal": "click"})

    (error,) = answer.json()["errors"]
    assert (answer.status_code, error["field"]) == (422, "goal")
    assert "this session has no goals" in error["message"]


@pytest.mark.parametrize(
    ("goals", "fields"),
    [
        ({}, {}),
        ({str(n): n / 40 for n in range(33)}, {}),
        ({"": 0.5}, {}),
        ({"x" * 65: 0.5}, {}),
        ({"a\nb": 0.5}, {}),
        ({"click": 1.5}, {}),
        ({"click": "1"}, {}),
        ({"click": 0.5, "cart": 0.5}, {}),
        ({"click": -1}, {"reward_range": None, "loss_range": [-1, 1], "normalize_losses": False}),
        (
            {"click": 0.5},
            {
                "learner": {"kind": "dbgd", "dim": 2, "feasible_set": {"kind": "ball", "radius": 1.0}},
                "updates": None,
                "reward_range": None,
            },
        ),
    ],
)
async def test_goals_that_do_not_fit_are_refused(client, goals, fields):
    body = {name: value for name, value in (body_of(goals=goals) | fields).items() if value is not None}
    answer = await client.post("/v1/sessions", json=body)

    assert (answer.status_code, answer.json()["errors"][0]["field"].split(".")[0]) == (422, "goals")


async def test_goals_are_replaced_whole_and_those_that_stay_keep_their_counts(client):
    arms = await created(client, goals=GOALS)
    await settled(client, *[{"arm": arms[n], "goal": goal} for n, goal in enumerate(GOALS)])

    shown = await patch(client, goals={"purchase": 0.9, "visit": 0.1, "click": 0.2})

    events = {name: (goal["value"], goal["events"]) for name, goal in shown["goals"].items()}
    assert events == {"purchase": (0.9, 1), "visit": (0.1, 0), "click": (0.2, 1)}
    assert (await settled(client, {"arm": arms[3], "goal": "cart"}, status=422))["errors"][0]["field"] == "goal"
    assert (await settled(client, {"arm": arms[3], "goal": "purchase"}))["applied"] == 1
    assert (await view(client))["goals"]["purchase"]["events"] == 2
    assert (await view(client))["mean_reward"] == pytest.approx((0.2 + 0.4 + 1 + 0.9) / 4)
    assert "goals" not in await patch(client, goals=None)
    assert "goals" not in await view(client)


async def test_goals_that_a_change_makes_wrong_are_refused(client):
    await created(client)

    answer = await client.patch(PATH, json={"goals": {"click": 7}})

    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, "goals")
