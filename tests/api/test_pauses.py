"""Arms that are paused and resumed."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.arm_changes import change, replace
from tests.support.one_session import KINDS, PATH, TAKES, act, acts, session, view


@pytest.mark.parametrize("kind", TAKES)
async def test_a_paused_arm_is_not_drawn_until_it_is_resumed(client, kind):
    await session(client, kind=kind)

    paused = await change(client, pause=["b", "d", "nobody"])
    actions = (await acts(client, count=40))["actions"]
    named = await act(client, eligible=["a", "b"])
    again = await change(client, resume=["b"], pause=["d"])
    drawn = {action["label"] for action in (await acts(client, count=60))["actions"]}

    assert paused["paused"] == ["b", "d"]
    assert paused["probabilities"] == pytest.approx([0.5, 0, 0.5, 0])
    assert {action["label"] for action in actions} == {"a", "c"}
    assert (named["label"], named["probability"], named["skipped"]) == ("a", 1.0, 1)
    assert again["paused"] == ["d"]
    assert drawn == {"a", "b", "c"}
    assert (await view(client))["learner"]["arms"] == ["a", "b", "c", "d"]


async def test_a_paused_arm_goes_on_learning_and_keeps_what_it_has_learned(client):
    await session(client, kind="exp3", learner={"learning_rate": 0.5})
    actions = (await acts(client, count=20))["actions"]
    of_b = [action for action in actions if action["label"] == "b"]
    await change(client, pause=["b"])

    for action in of_b:
        event = {"label": "b", "loss": 1, "slot": action["slot"]}
        answer = (await client.post(f"{PATH}/feedback", json=event)).json()
        assert (answer["applied"], answer.get("removed")) == (1, None)
    paused = await view(client)
    resumed = await change(client, resume=["b"])

    assert paused["probabilities"][1] == 0
    assert paused["probabilities"][0] == pytest.approx(1 / 3)
    assert 0 < resumed["probabilities"][1] < 0.25
    assert paused["removed"] == 0
    assert paused["feedbacks"] == len(of_b) > 0


async def test_the_view_is_that_of_the_last_slot_where_no_arm_is_paused(client):
    """Whatever that slot named; with a paused arm it is solved over the others."""
    await session(client)
    for arm, loss in [(0, 1.0), (1, 0.0), (2, 1.0), (3, 0.5)] * 5:
        await act(client, eligible=[arm])
        await client.post(f"{PATH}/feedback", json={"arm": arm, "loss": loss})

    whole = (await view(client), await act(client, eligible=["a"]), await view(client))
    paused = await change(client, pause=["b"])
    drawn = (await acts(client, count=8))["actions"]
    after = await view(client)

    assert whole[1]["probability"] == 1.0
    assert min(whole[2]["probabilities"]) > 0
    assert whole[2]["probabilities"] != [1, 0, 0, 0]
    assert paused["probabilities"][1] == 0
    assert sum(paused["probabilities"]) == pytest.approx(1)
    assert drawn[-1]["probability"] == after["probabilities"][drawn[-1]["arm"]]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"pause": ["a", "b", "c", "d"]}, "pause"),
        ({"resume": ["c"], "pause": ["a", "b", "c"]}, "pause"),
        ({"remove": ["a", "b"]}, "remove"),
        ({"remove": ["a"], "pause": ["b"]}, "pause"),
        ({"remove": ["a", "b", "c", "d"], "add": ["x"], "pause": ["x"]}, "remove"),
    ],
)
async def test_an_arm_that_may_be_drawn_must_stay(client, body, field):
    await session(client)
    before = await change(client, pause=["c", "d"])

    answer = await change(client, 422, **body)

    assert [error["field"] for error in answer["errors"]] == [field]
    assert await view(client) == before


async def test_removes_come_before_adds_resumes_and_pauses(client):
    await session(client)

    first = await change(client, remove=["a"], add=["a", "x"], resume=["x"], pause=["x", "c"])
    second = await change(client, remove=["c"], add=["c"], resume=["x", "c"])

    assert first["learner"]["arms"] == [None, "b", "c", "d", "a", "x"]
    assert first["paused"] == ["c", "x"]
    assert second["learner"]["arms"] == [None, "b", None, "d", "a", "x", "c"]
    assert second["paused"] == []


async def test_the_only_unpaused_arms_may_go_when_others_come(client):
    await session(client)
    await change(client, pause=["c", "d"])

    changed = await change(client, remove=["a", "b"], add=["x"])

    assert changed["paused"] == ["c", "d"]
    assert changed["probabilities"] == pytest.approx([0, 0, 0, 0, 1])
    assert {action["label"] for action in (await acts(client, count=5))["actions"]} == {"x"}


@pytest.mark.parametrize("kind", sorted(KINDS.keys() - set(TAKES)))
async def test_learners_that_do_not_define_pauses_say_so(client, kind):
    before = await session(client, kind=kind)

    for field in ("pause", "resume"):
        answer = await change(client, 422, **{field: ["a"]})
        assert [error["field"] for error in answer["errors"]] == [field]
    assert await change(client, pause=[], resume=[]) == before
    assert before["paused"] == []


async def test_what_changes_nothing_is_no_commit(client):
    await session(client)
    before = await change(client, pause=["b"])

    assert await change(client, pause=["b", "nobody"], resume=["a", "zz"]) == before
    assert await replace(client, ["d", "a", "b", "c", "a"]) == before == await view(client)


async def test_sessions_without_labels_have_no_pauses_and_no_catalogue(client):
    await session(client, arms=3)

    for answer in (await change(client, 409, pause=["a"]), await replace(client, ["a"], 409)):
        assert answer["code"] == "no_labels"


async def test_pauses_are_kept_by_every_store_and_seen_by_every_process(make_client, store):
    first, second = await make_client(store), await make_client(store)
    await session(first)
    await asyncio.gather(*(acts(each, count=4) for each in (first, second)))

    await change(first, pause=["a", "c"])
    drawn = (await acts(second, count=12))["actions"]
    await change(second, resume=["a"], pause=["d"])
    later = await make_client(store)
    seen, action = await view(later), await act(later, exclude=["b", "c"])
    await first.delete(PATH)

    assert {each["label"] for each in drawn} == {"b", "d"}
    assert seen["paused"] == ["c", "d"]
    assert (action["label"], action["skipped"]) == ("a", 1)
