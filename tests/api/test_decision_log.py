"""The decision log: every act and settled event once, in order, with the store's time."""

import asyncio
import json
from itertools import pairwise

import pytest

from service.commit.batch import Ended, Journal, SessionChanged, Settled
from service.cooperative import FairYield
from service.evaluation.command import main as evaluate
from service.models.specification import Specification
from service.serialization.summary import time_text
from tests.support.one_session import PATH, answered, made, pages


async def start(client, **fields):
    learner = {"kind": "centred_tsallis", "arms": ["a", "b"]}
    return await made(client, **{"learner": learner, "seed": 7, "decision_log": {"max_entries": 1000}} | fields)


async def log(client, **params):
    return await answered(client, "GET", f"{PATH}/decisions", params=params)


def timeless(decisions):
    """Entries behind the first without what each of them has."""
    left_out = ("at", "position", "session_id")
    assert decisions[0]["kind"] == "session"
    return [{name: value for name, value in each.items() if name not in left_out} for each in decisions[1:]]


async def test_acts_and_events_are_logged_as_they_were_answered(client):
    assert (await start(client))["decision_log"] == {"max_entries": 1000}
    actions = (await client.post(f"{PATH}/acts", json={"count": 3})).json()["actions"]
    events = [
        {"arm": actions[0]["arm"], "loss": 0.25, "event_id": "one"},
        {"label": actions[1]["label"], "loss": 1, "slot": 2},
        {"arm": actions[0]["arm"], "loss": 0.5, "event_id": "one"},
    ]
    await client.post(f"{PATH}/feedbacks", json={"events": events})

    page = await log(client)

    assert page["next_cursor"] is None
    acts = [{"kind": "act", **action, "eligible": 2} for action in actions]
    assert timeless(page["decisions"]) == [
        *acts,
        {"kind": "event", "arm": actions[0]["arm"], "loss": 0.25, "outcome": "applied", "event_id": "one"},
        {"kind": "event", "arm": actions[1]["arm"], "loss": 1.0, "outcome": "applied", "slot": 2},
    ]


async def test_times_are_the_stores(client, clock):
    await start(client)
    await client.post(f"{PATH}/act")
    clock.now += 5
    await client.post(f"{PATH}/act")

    _, first, second = [each["at"] for each in (await log(client))["decisions"]]

    assert first < second
    assert first.endswith("Z")


async def test_expiry_is_one_entry_for_each_arm_and_bucket(client, clock):
    await start(client, loss_range=[1, 0], expiry={"after_seconds": 64, "default_loss": 0})
    counts = [0, 0]
    for action in (await client.post(f"{PATH}/acts", json={"count": 20})).json()["actions"]:
        counts[action["arm"]] += 1
    clock.now += 70
    await client.post(f"{PATH}/act")

    entries = (await log(client))["decisions"]
    decisions, acted_until = timeless(entries), time_text((clock.now - 70) // 1 + 1)
    assert entries[1]["at"] < acted_until

    assert decisions[20:-1] == [
        {"kind": "event", "arm": arm, "loss": 0.0, "outcome": "expired", "count": counts[arm], "until": acted_until}
        for arm in (0, 1)
    ]
    assert decisions[-1]["slot"] == 21


async def test_changes_of_arms_and_events_of_removed_ones_are_logged(client):
    await start(client)
    arm = (await client.post(f"{PATH}/act")).json()
    await client.patch(f"{PATH}/arms", json={"add": ["c", "a"], "remove": [arm["label"], "nobody"]})
    await client.post(f"{PATH}/feedback", json={"arm": arm["arm"], "loss": 0.5})
    await client.patch(f"{PATH}/arms", json={"add": ["c"]})

    change, event = timeless((await log(client))["decisions"])[1:]

    assert change["kind"] == "arms"
    assert "c" in change["added"]
    assert change["removed"] == [arm["label"]]
    assert event == {"kind": "event", "arm": arm["arm"], "loss": 0.5, "outcome": "removed"}


async def test_what_is_refused_skipped_or_replayed_is_not_logged(client):
    await start(client)
    headers = {"Idempotency-Key": "k"}
    for _ in range(2):
        await client.post(f"{PATH}/act", headers=headers)
    await client.post(f"{PATH}/feedbacks", json={"events": [{"arm": 0, "loss": 0.5}] * 9})
    skipped = {"events": [{"arm": 0, "loss": 0.5}] * 9}
    answer = await client.post(f"{PATH}/feedbacks", params={"on_surplus": "skip"}, json=skipped)

    decisions = (await log(client))["decisions"]

    assert len(decisions) == 2 + answer.json()["applied"]


@pytest.mark.parametrize("limit", [1, 4, 1000])
async def test_pages_follow_each_other(client, limit):
    await start(client)
    await client.post(f"{PATH}/acts", json={"count": 9})
    found = []
    async for page in pages(client, f"{PATH}/decisions", limit=limit):
        found += [each.get("slot") for each in page["decisions"]]
        assert len(page["decisions"]) <= limit

    assert found == [None, *range(1, 10)]


async def test_a_session_without_a_log_says_so(client, create):
    path = await create()

    answer = await client.get(f"{path}/decisions")

    assert (answer.status_code, answer.json()["code"]) == (409, "no_decision_log")
    assert (await client.get("/v1/sessions/nobody/decisions")).status_code == 404


@pytest.mark.parametrize("cursor", ["", "x", "1", "1-", "-1", "9" * 20 + "-1"])
async def test_a_foreign_cursor_is_refused(client, cursor):
    await start(client)

    assert (await client.get(f"{PATH}/decisions", params={"cursor": cursor})).status_code == 422


@pytest.mark.parametrize("most", [0, 10_000_001, 1.5, None, "9"])
async def test_a_log_has_one_to_ten_million_entries(client, most):
    body = {"learner": {"kind": "dexp3", "n_arms": 2}, "decision_log": {"max_entries": most}}

    assert (await client.post("/v1/sessions", json=body)).status_code == 422


async def test_a_session_over_points_keeps_no_log(client):
    learner = {"kind": "dbgd", "dim": 2, "feasible_set": {"kind": "ball", "radius": 1.0}}
    body = {"learner": learner, "decision_log": {"max_entries": 9}}

    assert (await client.post("/v1/sessions", json=body)).status_code == 422


async def test_voids_and_rewards_are_logged_in_their_words(client):
    await start(client, reward_range=[0, 1])
    for action in (await client.post(f"{PATH}/acts", json={"count": 2})).json()["actions"]:
        reward = None if action["slot"] == 1 else 1
        await client.post(f"{PATH}/feedback", json={"arm": action["arm"], "reward": reward})

    void, reward = timeless((await log(client))["decisions"])[2:]

    assert (void["outcome"], void["reward"]) == ("voided", None)
    assert (reward["outcome"], reward["reward"]) == ("applied", 1.0)
    assert "loss" not in reward


EXPIRY = {"after_seconds": 60.0, "default_reward": 0.0}


async def test_a_log_begins_with_how_its_events_are_read_and_says_each_change(client):
    await start(client, reward_range=[0, 1], expiry=EXPIRY)
    await client.post(f"{PATH}/act")
    await client.patch(PATH, json={"floor": 0.1})
    await client.patch(PATH, json={"expiry": None})

    entries = (await log(client))["decisions"]

    told = {"kind": "session", "expiry": EXPIRY, "reward_range": [0, 1], "session_id": "s"}
    assert entries[0] == told | {"position": 1, "at": entries[0]["at"]}
    assert entries[2] == told | {"changed": ["floor"], "position": 3, "at": entries[2]["at"]}
    assert entries[3] == told | {"changed": ["expiry"], "expiry": None, "position": 4, "at": entries[3]["at"]}


async def test_a_change_may_be_the_first_entry(client):
    await start(client)
    await client.patch(PATH, json={"floor": 0.1})

    (entry,) = (await log(client))["decisions"]

    assert (entry["changed"], entry["expiry"], entry["loss_range"]) == (["floor"], None, [0, 1])


@pytest.mark.parametrize(("most", "every"), [(1, 2), (4, 2), (9, 4), (100, 50), (10**6, 10_000)])
async def test_how_events_are_read_is_said_again_before_the_log_is_trimmed(client, most, every):
    """Within a large batch, too, and in later ones as of the last change."""
    await start(client, decision_log={"max_entries": most})
    fields = {"learner": {"kind": "dexp3", "n_arms": 2}, "decision_log": {"max_entries": most}}
    session = Specification.model_validate(fields)
    other = {"expiry": None, "loss_range": [0, 5]}
    batch = Journal([Settled([0] * every, [1.0] * every, [None] * every), SessionChanged(["floor"], other)])
    batch.append(Ended(0, "applied", 1.0))
    batch.extend([batch[-1]] * every)

    entries = [json.loads(each) for each in await batch.entries(session, 3 * every, FairYield())]

    places = [place for place, each in enumerate(entries) if each["kind"] == "session"]
    assert places[0] == 0
    assert all(one < other <= one + every for one, other in pairwise([*places, len(entries)]))
    assert (entries[0]["loss_range"], entries[places[-1]]["loss_range"]) == ([0, 1], [0, 5])
    assert len(entries) - len(places) == 2 * every + 1


async def test_other_requests_go_on_while_a_page_is_written(client, monkeypatch):
    await start(client)
    await client.post(f"{PATH}/acts", json={"count": 100})
    monkeypatch.setattr(FairYield, "slice_seconds", 0.0)
    page = asyncio.ensure_future(log(client, limit=1000))
    passes = 0
    while not page.done():
        await asyncio.sleep(0)
        passes += 1
    assert passes > len(page.result()["decisions"]) > 100


async def test_a_log_that_evaluate_reads_is_that_of_the_service(client, clock, tmp_path, capsys):
    """Clicks by token are known, others are spread over the acts of their group and arm."""
    path = tmp_path / "log.jsonl"
    await start(client, reward_range=[0, 1], expiry=EXPIRY, tokens=True, control={"share": 0.4})
    for slot in range(1, 201):
        action = (await client.post(f"{PATH}/act")).json()
        by_token = slot % 3 and {"token": action["token"]}
        event = by_token or {"arm": action["arm"], "group": action["group"]}
        await client.post(f"{PATH}/feedback", json=event | {"reward": 1})
        clock.now += 1
    path.write_text(json.dumps(await log(client, limit=1000)) + "\n")

    assert evaluate([str(path), "--json"], "prog") == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["acts"], said["of"], said["slots"]) == (200, "reward", "mixed")
