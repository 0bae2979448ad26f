"""Choices of arms that are refused: with the field that makes no sense, or by learners that define none."""

from __future__ import annotations

import pytest

from service.models.events import MAX_NAMES
from tests.support.one_session import KINDS, PATH, TAKES, act, acts, session, view


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"eligible": []}, "eligible"),
        ({"eligible": ["a", 1]}, "eligible"),
        ({"exclude": [1, "a"]}, "exclude"),
        ({"eligible": [-1]}, "eligible"),
        ({"eligible": [1.5]}, "eligible"),
        ({"exclude": [True]}, "exclude"),
        ({"exclude": [None]}, "exclude"),
        ({"eligible": "a"}, "eligible"),
        ({"eligible": list(range(MAX_NAMES + 1))}, "eligible"),
        ({"exclude": ["a"] * (MAX_NAMES + 1)}, "exclude"),
        ({"eligible": ["a"], "exclude": ["b"]}, "exclude"),
        ({"eligible": ["a"], "exclude": []}, "exclude"),
        ({"only": ["a"]}, "only"),
    ],
)
async def test_what_makes_no_sense_is_refused(client, body, field):
    await session(client)

    answers = [await act(client, status=422, **body), await acts(client, status=422, count=2, **body)]

    for answer in answers:
        assert answer["code"] == "invalid_request"
        assert [error["field"] for error in answer["errors"]] == [field]
    assert (await view(client))["slot"] == 0


async def test_half_a_character_is_no_label(client):
    await session(client)
    body, head = b'{"eligible": ["\\ud800"]}', {"Content-Type": "application/json"}

    answer = await client.post(f"{PATH}/act", content=body, headers=head)

    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"] == "eligible"


async def test_distinct_is_a_field_of_acts_alone(client):
    await session(client)

    assert (await act(client, status=422, distinct=True))["errors"][0]["field"] == "distinct"
    assert (await acts(client, status=422, count=2, distinct=1))["errors"][0]["field"] == "distinct"


async def test_labels_where_the_session_has_none_are_refused_and_the_other_way_round_is_not(client):
    await session(client, arms=4)
    answer = await act(client, status=422, eligible=["a"])
    assert answer["errors"][0]["field"] == "eligible"
    assert (await act(client, exclude=[0]))["arm"] != 0


@pytest.mark.parametrize("kind", sorted(KINDS.keys() - set(TAKES)))
async def test_learners_that_do_not_define_it_say_so(client, kind):
    await session(client, kind=kind)

    for body, field in (
        ({"eligible": ["a"]}, "eligible"),
        ({"exclude": []}, "exclude"),
        ({"count": 2, "distinct": True}, "distinct"),
        ({"count": 2, "eligible": ["a"]}, "eligible"),
    ):
        answer = await (acts if "count" in body else act)(client, status=422, **body)
        assert answer["errors"][0]["field"] == field
    assert len((await acts(client, count=2, distinct=False))["actions"]) == 2


async def test_learners_over_points_do_not_define_it(client):
    learner = {"kind": "dbgd", "dim": 2, "feasible_set": {"kind": "ball", "radius": 1.0}}
    await client.post("/v1/sessions", json={"session_id": "s", "learner": learner})

    assert (await act(client, status=422, eligible=[0]))["errors"][0]["field"] == "eligible"
    assert (await acts(client, status=422, count=2, distinct=True))["errors"][0]["field"] == "distinct"
    assert (await act(client))["slot"] == 1
