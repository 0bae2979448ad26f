"""A control group in a session: which acts are its own, events of both groups, their counts, verdict and guard."""

import json
import logging
import random
from functools import partial

import pytest

from service.store.memory import MemoryStore
from tests.support import one_session
from tests.support.changed_documents import changed
from tests.support.one_session import PATH, act, acts, change, moved, patch, session, view
from tests.support.plain_groups import Groups, in_control

GROUPS = ("learner", "control")
SEED = 7
"""Of ``session``."""
WINDOW = {"after_seconds": 64, "default_reward": 0}
SLOTS = {"learner": {"max_open_slots": 400, "learning_rate": 0.1}}
KINDS = {
    "provisional": {"kind": "multiscale_tsallis", "expiry": WINDOW, "updates": {"within_seconds": 100}},
    "waiting": {"kind": "multiscale_tsallis", "expiry": WINDOW | {"provisional": False}, "tokens": True},
    "null": {"kind": "centred_tsallis", "expiry": WINDOW | {"default_reward": None}},
    "segments": {"kind": "multiscale_tsallis", "segments": {"max": 3}, "expiry": WINDOW, "tokens": True},
    "no window": {"kind": "fixed", "updates": {"within_seconds": 100}},
    "slots": {"kind": "exp3", "expiry": WINDOW} | SLOTS,
}
settled = partial(one_session.settled, query="?on_surplus=skip")


async def with_control(client, kind="provisional", share=0.3, **fields):
    return await session(client, **({"reward_range": [0, 1], "control": {"share": share}} | KINDS[kind] | fields))


def event_of(action, reward, **fields):
    return {name: action[name] for name in ("arm", "slot", "group")} | {"reward": reward} | fields


@pytest.mark.parametrize(
    ("kind", "seed"),
    [*(("provisional", 1), ("slots", 1)), *(pytest.param(kind, 2, marks=pytest.mark.slow) for kind in KINDS)],
)
async def test_counts_and_verdict_are_those_of_a_plain_model(make_client, client, clock, kind, seed):
    """Over acts of all kinds, events, voids, updates, expiry, arms that come and go, a halt, and an export."""
    rng, fields = random.Random(seed), KINDS[kind]
    default = fields.get("expiry", {"default_reward": None})["default_reward"]
    guard = {"tolerance": 0.01}
    await with_control(client, kind, guard=guard)
    within = fields.get("updates", {"within_seconds": -1})["within_seconds"]
    plain, share, halts, halted = Groups(default, 64 if "expiry" in fields else 1e12, within), 0.3, 0, False
    live, named, given = {"a": 0, "b": 1, "c": 2, "d": 3}, "segments" in kind, []

    def judged():
        nonlocal halted
        ends = plain.interval()
        halted = halted or (ends is not None and ends[1] < -guard["tolerance"])

    for step in range(240):
        clock.now += rng.choice([0, 0, 0.5, 3])
        plain.pass_time(clock.now)
        dice = rng.random()
        if dice < 0.4:
            body, slot = {"count": rng.randint(1, 9)}, len(plain.all) + 1
            body |= {"segment": rng.choice("xyz")} if named else {}
            body |= {"visitor": rng.choice("mnopq")} if rng.random() < 0.3 else {}
            body |= {"distinct": True, "count": 2} if rng.random() < 0.2 else {}
            for action in (await acts(client, **body))["actions"]:
                name = f"v{body['visitor']}" if "visitor" in body else f"s{action['slot']}"
                name = f"s{slot}" if body.get("distinct") and "visitor" not in body else name
                expected = "control" if halted or in_control(SEED, name, share) else "learner"
                assert (action["group"], action["slot"]) == (expected, len(plain.all) + 1)
                plain.act(action["group"], action["arm"], action["slot"], clock.now)
                given.append(action | ({"segment": body["segment"]} if named else {}))
        elif dice < 0.9 and given:
            action = rng.choice(given[-60:])
            group = action["group"] if rng.random() < 0.9 else rng.choice(["learner", "control"])
            reward = None if rng.random() < 0.1 else rng.choice([0.5, 1]) * (1 if group == "control" else 0.01)
            event_id = f"e{rng.randint(0, 250)}"
            event = {"arm": action["arm"], "reward": reward, "event_id": event_id, "group": group}
            event |= {"segment": action["segment"]} if named else {}
            event |= {"slot": action["slot"]} if kind == "slots" else {}
            if rng.random() < 0.2 and group == "learner":
                del event["group"]
            if event["arm"] not in live.values():
                expected = "removed"
                if event_id in plain.by_id:
                    continue
                plain.by_id[event_id] = {}
            else:
                slot = action["slot"] if kind == "slots" else None
                if slot and group != action["group"] == "control":
                    continue  # No decision of the learner has this slot.
                expected = plain.event(group, event["arm"], reward, event_id, clock.now, slot)
            settlement = await settled(client, event)
            assert settlement.pop("outstanding", 0) == sum(each["open"] for each in plain.all)
            assert settlement == {expected: 1}, step
        elif dice < 0.93 and len(live) > 2:
            label = rng.choice(list(live))
            plain.remove(live[label])
            answer = await change(client, remove=[label], add=[f"new{step}"])
            arms = answer["learner"]["arms"]
            live = dict(zip(arms, answer["learner"].get("arm_indexes", range(len(arms))), strict=True))
        elif dice < 0.95:
            share = rng.choice([0.2, 0.3, 0.5])
            await patch(client, control={"share": share})
        elif dice < 0.97 and halted:
            await patch(client, halted=False)
            plain.verdict_from, halted, halts = len(plain.all), False, halts + 1
        elif dice > 0.98:
            before = await view(client)
            await moved(client, client := await make_client(MemoryStore(clock=clock)))
            assert await view(client) | {"version": ""} == before | {"version": ""}
        judged()

        if step % 3 and step < 230:
            continue
        shown = await view(client)
        for group in ("learner", "control"):
            expected = plain.shown(group)
            mean = expected.pop("mean_reward")
            row = dict(shown["groups"][group])
            assert row.pop("mean_reward") == (None if mean is None else pytest.approx(mean, abs=1e-9)), step
            assert row == expected, step
        ends = plain.interval()
        assert ("verdict" in shown) == (ends is not None)
        if ends is not None:
            assert (shown["verdict"]["low"], shown["verdict"]["high"]) == pytest.approx(ends, abs=1e-9)
        assert ("halted_at" in shown) == halted
        assert shown["slot"] == len(plain.all)
    assert halts or halted or default is None


async def fields_of(response):
    assert response.status_code == 422, response.text
    return [each["field"] for each in response.json()["errors"]]


@pytest.mark.parametrize(
    ("learner", "fields", "wrong"),
    [
        ({"kind": "dexp3"}, {}, "control"),
        ({"kind": "ogd"}, {}, "control"),
        ({}, {"control": {"share": 0}}, "control.share"),
        ({}, {"control": {"share": 0.51}}, "control.share"),
        ({}, {"control": {"share": 0.1, "probabilities": [0.5, 0.5]}}, "control.probabilities"),
        ({}, {"control": {"share": 0.1, "probabilities": [0.5, 0.5, 0.5]}}, "control.probabilities"),
        ({}, {"control": {"share": 0.1, "probabilities": {"a": 1, "b": 0, "d": 0}}}, "control.probabilities"),
        ({}, {"control": None, "guard": {"tolerance": 0.1}}, "guard.tolerance"),
        ({}, {"guard": {"tolerance": 0}}, "guard.tolerance"),
        ({"kind": "ogd"}, {"control": None, "guard": {"silence": False}}, "guard"),
    ],
)
async def test_what_a_session_can_not_have_is_named(client, learner, fields, wrong):
    arms = {"kind": "multiscale_tsallis", "arms": ["a", "b", "c"]} | learner
    if learner.get("kind") == "ogd":
        arms = {"kind": "ogd", "dim": 2, "learning_rate": 0.1, "feasible_set": {"kind": "ball", "radius": 1}}
    body = {"learner": arms, "control": {"share": 0.1}} | fields

    assert wrong in await fields_of(await client.post("/v1/sessions", json=body))


async def test_a_group_needs_a_session_that_has_or_had_control(client):
    await session(client)
    await acts(client, count=4)
    event = {"arm": 0, "loss": 1, "group": "learner", "event_id": "one"}

    assert await fields_of(await client.post(f"{PATH}/feedback", json=event)) == ["group"]
    assert await fields_of(await client.post(f"{PATH}/feedbacks", json={"events": [event]})) == ["group"]
    lines = json.dumps(event | {"session_id": "s"}).encode()
    bulk = await client.post("/v1/feedbacks", content=lines, headers={"Content-Type": "application/x-ndjson"})
    assert [each["field"] for each in bulk.json()["errors"]] == ["group"]
    ball = {"kind": "ogd", "dim": 2, "learning_rate": 0.1, "feasible_set": {"kind": "ball", "radius": 1}}
    assert (await client.post("/v1/sessions", json={"session_id": "p", "learner": ball})).status_code == 201
    void = await client.post("/v1/sessions/p/feedback", json={"void": True, "group": "control"})
    assert await fields_of(void) == ["group"]


@pytest.mark.parametrize("visitor", ["", "é" * 65, "a\nb", 7])
async def test_a_visitor_is_a_short_name_and_ignored_without_control(client, visitor):
    await session(client)

    assert await fields_of(await client.post(f"{PATH}/act", json={"visitor": visitor})) == ["visitor"]
    assert "group" not in await act(client, visitor="é" * 64)
    assert all("group" not in each for each in (await acts(client, count=2, visitor="x"))["actions"])


async def test_events_say_their_group_and_surplus_is_judged_by_group_and_arm(client):
    shown = await with_control(client, "no window", share=0.5, decision_log={"max_entries": 100})
    assert (shown["control"], shown["groups"]["learner"]["acts"]) == ({"share": 0.5}, 0)
    given = (await acts(client, count=20))["actions"]
    arm = next(each["arm"] for each in given if each["group"] == "control")
    counts = {name: sum((each["arm"], each["group"]) == (arm, name) for each in given) for name in GROUPS}
    plain = [{"arm": arm, "reward": 1} for _ in range(20)]
    of_control = [each | {"group": "control"} for each in plain]

    for events, group in ((plain, "learner"), (of_control, "control")):
        answer = await settled(client, *events)
        assert answer["applied"] == counts[group] > 0
        assert answer["surplus"] == 20 - counts[group]
    log = (await client.get(f"{PATH}/decisions")).json()["decisions"]
    log = [entry for entry in log if entry["kind"] != "session"]
    assert [entry["group"] for entry in log[:20]] == [each["group"] for each in given]
    assert [entry["group"] for entry in log[20:]] == [name for name in GROUPS for _ in range(counts[name])]
    (row,) = [row for row in (await client.get(f"{PATH}/arms")).json()["arms"] if row["arm"] == arm]
    both, leader = sum(counts.values()), (await view(client))["leader"]
    assert (row["acts"], row["feedbacks"], row["outstanding"], row["so_far"]["acts"]) == (both, both, 0, both)
    rows = (await client.get(f"{PATH}/arms")).json()["arms"]
    assert leader["mean"] == next(each["so_far"]["mean"] for each in rows if each["arm"] == leader["arm"])


async def test_a_visitor_and_a_distinct_call_are_one_group(client):
    await with_control(client, share=0.5)
    for visitor in ("m", "n", "o", "p"):
        group = "control" if in_control(SEED, f"v{visitor}", 0.5) else "learner"
        assert (await act(client, visitor=visitor))["group"] == group
        several = (await acts(client, count=5, visitor=visitor))["actions"]
        assert {each["group"] for each in several} == {group}
    for _ in range(8):
        actions = (await acts(client, count=4, distinct=True))["actions"]
        group = "control" if in_control(SEED, f"s{actions[0]['slot']}", 0.5) else "learner"
        assert [each["group"] for each in actions] == [group] * 4
        assert len({each["arm"] for each in actions}) == 4


async def test_control_can_draw_what_fixed_can_not(client):
    """Where no eligible arm has any weight control is uniform over these; ``fixed`` has nothing to draw."""
    probabilities = {"a": 1.0, "b": 0.0, "c": 0.0, "d": 0.0}
    control = {"share": 0.5, "probabilities": probabilities}
    await with_control(client, "no window", learner={"probabilities": probabilities}, control=control)
    groups = ["control" if in_control(SEED, f"v{name}", 0.5) else "learner" for name in "mnopqr"]
    assert set(groups) == set(GROUPS)

    for name, group in zip("mnopqr", groups, strict=True):
        for body in ({"eligible": ["b", "c"]}, {"eligible": ["nobody"]}):
            refused = group == "learner" or body["eligible"] == ["nobody"]
            answer = await act(client, 409 if refused else 200, visitor=name, **body)
            assert refused or (answer["probability"], answer["label"] in "bc") == (0.5, True)
    await acts(client, 409, count=30, eligible=["b"])
    assert (await view(client))["slot"] == groups.count("control")


async def test_a_token_carries_its_group(client):
    await with_control(client, "waiting", share=0.5)
    given = (await acts(client, count=12))["actions"]
    other = {"learner": "control", "control": "learner"}

    for action in given[:6]:
        wrong = {"token": action["token"], "reward": 1, "group": other[action["group"]]}
        assert await fields_of(await client.post(f"{PATH}/feedback", json=wrong)) == ["group"]
        assert (await client.post("/v1/clicks", json={"token": action["token"]})).status_code == 204
    right = {"token": given[6]["token"], "reward": 1, "group": given[6]["group"]}
    assert await settled(client, right) == {"applied": 1, "outstanding": 5}
    groups = (await view(client))["groups"]
    for name in GROUPS:
        assert groups[name]["events"] == sum(each["group"] == name for each in given[:7])


async def test_control_comes_changes_and_ends(client):
    await session(client, reward_range=[0, 1], guard={"silence": False})
    await acts(client, count=10)
    assert "groups" not in await view(client)

    shown = await patch(client, control={"share": 0.5}, guard={"tolerance": 0.5, "silence": False})
    assert shown["groups"]["learner"] == {"acts": 10, "outstanding": 10, "events": 0, "mean_reward": None}
    given = (await acts(client, count=10))["actions"]
    of_control = [each for each in given if each["group"] == "control"]
    await change(client, add=["e"], remove=["b"])
    bad = {"share": 0.5, "probabilities": dict.fromkeys("abcd", 0.25)}
    assert (await patch(client, 422, control=bad))["errors"][0]["field"] == "control.probabilities"
    new = {"share": 0.5, "probabilities": {"a": 0.0, "c": 0.0, "d": 0.0, "e": 1.0}}
    assert (await patch(client, control=new))["control"] == new
    drawn = [each["label"] for each in (await acts(client, count=20))["actions"] if each["group"] == "control"]
    assert set(drawn) == {"e"}
    again = await client.post("/v1/sessions", json={"session_id": "s", "learner": {"kind": "dexp3", "n_arms": 2}})
    assert {"control", "guard"} <= {each["field"] for each in again.json()["errors"]}
    shown = await patch(client, control=None)
    assert ("control" in shown, shown["guard"]) == (False, {"silence": False})
    assert (await patch(client, guard=None)).get("guard") is None
    assert all("group" not in each for each in (await acts(client, count=10))["actions"])
    event = event_of(next(each for each in of_control if each["label"] != "b"), 1)
    assert (await settled(client, event))["applied"] == 1
    assert (await view(client))["groups"]["control"]["events"] == 1
    assert (await patch(client, 422, guard={"tolerance": 1}))["errors"][0]["field"] == "guard.tolerance"


async def halted_session(client, **fields):
    """A session whose learner is clearly worse: 300 acts, and all clicks are of the control group."""
    await with_control(client, share=0.5, guard={"tolerance": 0.05}, **fields)
    given = (await acts(client, count=300))["actions"]
    return given, [event_of(each, 1, event_id=f"c{each['slot']}") for each in given if each["group"] == "control"]


async def test_a_guard_halts_once_and_one_call_lets_it_go_on(client, caplog):
    _, clicks = await halted_session(client)
    caplog.set_level(logging.WARNING)
    assert "halted_at" not in await view(client)
    await settled(client, *clicks[:-2])
    await settled(client, clicks[-2])
    before = await view(client)

    assert {each["group"] for each in (await acts(client, count=50))["actions"]} == {"control"}
    assert (await acts(client, count=3, distinct=True, visitor="m"))["actions"][0]["group"] == "control"
    shown = await view(client)
    assert (shown["halted_at"], shown["probabilities"]) == (before["halted_at"], before["probabilities"])
    assert (shown["verdict"]["is"], "halted" in [hint["code"] for hint in shown["hints"]]) == ("worse", True)
    halted = (await client.get("/v1/sessions?hint=halted")).json()["sessions"]
    assert [each["session_id"] for each in halted] == ["s"]
    assert [record.getMessage()[:9] for record in caplog.records if "halted" in record.message] == ["session s"]
    assert "bandit_sessions_halted_total 1.0" in (await client.get("/metrics")).text
    assert (await patch(client, 409, control=None))["code"] == "session_halted"
    for wrong in (True, None):
        assert (await patch(client, 422, halted=wrong))["errors"][0]["field"] == "halted"
    on = await patch(client, halted=False)
    assert ("halted_at" in on, "verdict" in on, on["groups"]["control"]["mean_reward"]) == (False, False, None)
    assert on["groups"]["control"]["events"] == len(clicks) - 1
    assert (await patch(client, halted=False))["version"] == on["version"]
    assert {each["group"] for each in (await acts(client, count=50))["actions"]} == set(GROUPS)
    assert (await patch(client, control=None)).get("control") is None


async def test_events_of_older_decisions_leave_a_new_verdict_alone(client, clock, make_client):
    given, clicks = await halted_session(client)
    late = clicks[-1]
    await settled(client, *clicks[:-1])
    await patch(client, halted=False)
    new = (await acts(client, count=60))["actions"]
    own = next(each for each in new if each["group"] == "control" and each["arm"] != late["arm"])
    means = {name: each["mean_reward"] for name, each in (await view(client))["groups"].items()}
    assert means == {"learner": 0, "control": 0}
    rest = [each for each in given if each["group"] == "learner"][:5]

    await settled(client, late | {"reward": 0.5}, clicks[0], *[event_of(each, 1) for each in rest])
    assert await settled(client, late) == {"updated": 1, "outstanding": (await view(client))["outstanding"]}
    await moved(client, client := await make_client(MemoryStore(clock=clock)))
    groups = (await view(client))["groups"]
    assert [groups[name]["mean_reward"] for name in GROUPS] == [0, 0]
    assert groups["control"]["events"] == len(clicks)
    first = event_of(own, 0.5, event_id="own")
    assert (await settled(client, first | {"reward": 1}, first))["applied"] == 1
    counted = sum(each["group"] == "control" for each in new)
    assert (await view(client))["groups"]["control"]["mean_reward"] == pytest.approx(1 / counted)


async def test_tokens_say_of_which_decisions_events_after_a_halt_are(client):
    body = {"learner": {"kind": "fixed", "arms": ["a"]}, "reward_range": [0, 1], "tokens": True, "expiry": WINDOW}
    guarded = {"control": {"share": 0.5}, "guard": {"tolerance": 0.01, "silence": False}, "seed": 7}
    await client.post("/v1/sessions", json={"session_id": "s"} | body | guarded)
    before = (await acts(client, count=400))["actions"]
    assert (await settled(client, *([{"arm": 0, "group": "control", "reward": 1}] * 150)))["applied"] == 150
    await patch(client, halted=False)

    new = [each for each in (await acts(client, count=400))["actions"] if each["group"] == "learner"]
    old = [each for each in before if each["group"] == "learner"][:20]
    answers = [{"token": each["token"], "reward": 1} for each in (*new, *old)]
    assert (await settled(client, *answers))["applied"] == len(answers)

    groups = (await view(client))["groups"]
    assert [groups[name]["mean_reward"] for name in GROUPS] == [1, 0]


async def test_imports_with_other_numbers_are_refused_or_work(client):
    """Of both groups, and of what a new verdict leaves alone."""
    _, clicks = await halted_session(client, expiry=WINDOW, decision_log={"max_entries": 10})
    await settled(client, *clicks)
    await patch(client, halted=False, control={"share": 0.5, "probabilities": [0.1, 0.2, 0.3, 0.4]})
    await acts(client, count=20)
    document, rng, statuses = (await client.get(f"{PATH}/export")).json(), random.Random(4), []
    for _ in range(40):
        await client.delete(PATH)
        response = await client.post("/v1/sessions/import", json=changed(document, rng))
        statuses.append(response.status_code)
        if response.status_code == 201:
            await acts(client, count=9)
            assert (await client.get(PATH)).status_code == 200
    assert set(statuses) <= {201, 413, 422}
    assert statuses.count(422) > 20


async def test_a_window_that_comes_later_ends_decisions_of_the_control_group_too(client, clock):
    await with_control(client, "no window", share=0.5)
    given = (await acts(client, count=20))["actions"]
    await settled(client, *[event_of(each, 0) for each in given if each["group"] == "learner"])
    left = sum(each["group"] == "control" for each in given)
    assert (await patch(client, expiry=WINDOW))["outstanding"] == left
    await patch(client, expiry=WINDOW | {"after_seconds": 32})
    clock.now += 40

    assert ((await view(client))["expired"], (await act(client))["slot"]) == (left, 21)
    assert (await view(client))["groups"]["control"]["outstanding"] <= 1
