"""Catalogues that are replaced whole, and how many arms a session may have and ever have had."""

from __future__ import annotations

import pytest

from tests.support.arm_changes import change, replace
from tests.support.one_session import KINDS, acts, session, view


@pytest.mark.parametrize("kind", KINDS)
async def test_a_catalogue_is_exchanged_whole(client, kind):
    """Also where no arm stays: the new ones come before the old ones go."""
    await session(client, kind=kind)
    actions = (await acts(client, count=9))["actions"]

    some = await replace(client, ["d", "x", "a"])
    all_new = await replace(client, ["u", "v"])

    assert some["learner"]["arms"] == ["a", None, None, "d", "x"]
    assert sum(some["probabilities"]) == pytest.approx(1)
    assert some["removed"] == sum(action["label"] in {"b", "c"} for action in actions)
    assert all_new["learner"]["arms"] == [None] * 5 + ["u", "v"]
    assert all_new["probabilities"] == pytest.approx([0] * 5 + [0.5, 0.5])
    assert all_new["removed"] == 9
    assert {action["label"] for action in (await acts(client, count=1))["actions"]} <= {"u", "v"}


async def test_a_catalogue_leaves_pauses_as_they_are(client):
    await session(client)
    await change(client, pause=["a", "b"])

    kept = await replace(client, ["a", "c", "x"])
    refused = await replace(client, ["a"], 422)

    assert kept["paused"] == ["a"]
    assert [error["field"] for error in refused["errors"]] == ["arms"]
    assert (await view(client))["learner"]["arms"] == ["a", None, "c", None, "x"]


@pytest.mark.parametrize("arms", [[], [""], ["a\n"], ["x" * 129], [1], "a", None, ["a", None]])
async def test_bad_catalogues_are_refused(client, arms):
    before = await session(client)

    answer = await replace(client, arms, 422)

    assert answer["errors"][0]["field"].split(".")[0] == "arms"
    assert await view(client) == before


async def test_limits_are_judged_on_the_result(make_client):
    client = await make_client(max_arms_centred=4, max_arms_ever=9)
    await session(client)

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
    assert len(last["learner"]["arms"]) == 9
    assert [arm for arm in fewer["learner"]["arms"] if arm] == ["s", "t"]


async def test_a_session_begins_within_the_arms_it_may_ever_have(make_client):
    client = await make_client(max_arms_ever=2)
    learner = {"kind": "centred_tsallis", "arms": ["a", "b", "c"]}

    answer = await client.post("/v1/sessions", json={"learner": learner})

    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, "learner.n_arms")
    assert "BANDIT_MAX_ARMS_EVER" in answer.json()["detail"]
    assert (await client.post("/v1/sessions", json={"learner": learner | {"arms": ["a", "b"]}})).status_code == 201
