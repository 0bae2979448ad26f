"""Acts that name the arms they may draw: eligible, exclude, distinct."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest

from service.engine.ledger import Params
from service.engine.run import start_run
from service.learners import REGISTRY
from service.models.events import MAX_NAMES
from tests.support.one_session import ARMS, KINDS, PATH, TAKES, act, acts, session, view


@pytest.mark.parametrize("kind", TAKES)
async def test_an_arm_alone_has_probability_one_to_the_last_digit(client, kind):
    await session(client, kind=kind, floor=0.1)
    for _ in range(20):
        slate = (await acts(client, count=4, distinct=True))["actions"]
        assert slate[-1]["probability"] == 1
        events = [{"arm": each["arm"], "slot": each["slot"], "loss": 0.2 + 0.2 * each["arm"]} for each in slate]
        await client.post(f"{PATH}/feedbacks", json={"events": events})


@pytest.mark.parametrize("kind", TAKES)
async def test_the_numbers_are_those_of_the_run_in_process(client, kind):
    """Labels, indexes, eligible and exclude name the same arms."""
    await session(client, kind=kind)
    spec = REGISTRY[kind].model_validate({"kind": kind, "arms": ARMS} | KINDS[kind])
    run = start_run(Params(spec, 7))
    bodies = [
        ({"eligible": ["b", "d"]}, [1, 3]),
        ({"eligible": [3, 1, 1]}, [1, 3]),
        ({"exclude": ["a", "c", "a"]}, [1, 3]),
        ({"exclude": [0]}, [1, 2, 3]),
        ({"exclude": []}, [0, 1, 2, 3]),
        ({}, [0, 1, 2, 3]),
        ({"eligible": None, "exclude": None}, [0, 1, 2, 3]),
    ]
    for number in range(40):
        body, arms = bodies[number % len(bodies)]
        action = await act(client, **body)
        own = run.act(run.arms.find(arms)[0])
        assert (action["slot"], action["arm"], action["probability"]) == own[:3]
        assert action.keys() == {"slot", "arm", "probability", "label"}
        assert own.eligible == len(arms)
        assert action["arm"] in arms


async def test_every_name_is_drawn_of_those_that_may_be(client):
    await session(client, arms=5)

    seen = {(await act(client, eligible=[1, 4]))["arm"] for _ in range(30)}
    actions = (await acts(client, count=60, exclude=[0, 2]))["actions"]

    assert seen == {1, 4}
    assert {action["arm"] for action in actions} == {1, 3, 4}


@pytest.mark.parametrize("field", ["eligible", "exclude"])
async def test_names_of_no_live_arm_are_skipped_and_counted_once(client, field):
    await session(client)
    await client.patch(f"{PATH}/arms", json={"add": ["x"], "remove": ["d"]})

    by_label = await act(client, **{field: ["a", "d", "nobody", "", "nobody", "x"]})
    by_index = await act(client, **{field: [0, 3, 5, 5, 2**70, 4]})
    several = await acts(client, count=2, **{field: ["a", "d"]})

    assert by_label["skipped"] == 3
    assert by_index["skipped"] == 3
    assert several["skipped"] == 1
    assert all("skipped" not in action for action in several["actions"])
    allowed = {"a", "x"} if field == "eligible" else {"b", "c"}
    assert {by_label["label"], by_index["label"]} <= allowed
    assert "skipped" not in await act(client, **{field: ["a"]})


@pytest.mark.parametrize(
    "body", [{"eligible": ["nobody"]}, {"eligible": [7, 9]}, {"exclude": ARMS}, {"exclude": [0, 1, 2, 3, 4]}]
)
async def test_where_nothing_is_left_no_slot_opens(client, body):
    await session(client)
    before = await view(client)

    answer = await act(client, status=409, **body)
    several = await acts(client, status=409, count=3, distinct=True, **body)

    assert answer["code"] == several["code"] == "no_eligible_arm"
    assert await view(client) == before


async def test_fixed_arms_at_0_alone_are_nothing_left(client):
    await session(client, kind="fixed", learner={"probabilities": {"a": 0.5, "b": 0.5, "c": 0, "d": 0}})

    assert (await act(client, status=409, eligible=["c", "d"]))["code"] == "no_eligible_arm"
    assert (await act(client, eligible=["b", "c"]))["probability"] == 1.0
    assert len((await acts(client, count=4, distinct=True))["actions"]) == 2


async def test_the_longest_list_is_served(client):
    await session(client)

    action = await act(client, exclude=[f"item-{n}" for n in range(MAX_NAMES - 1)] + ["a"])

    assert action["skipped"] == MAX_NAMES - 1
    assert action["label"] != "a"


@pytest.mark.parametrize("kind", TAKES)
async def test_distinct_arms_are_drawn_one_by_one_from_those_left(client, kind):
    await session(client, kind=kind)
    run = start_run(Params(REGISTRY[kind].model_validate({"kind": kind, "arms": ARMS} | KINDS[kind]), 7))

    several = await acts(client, count=3, distinct=True, exclude=["b", "zz"])
    fewer = await acts(client, count=9, distinct=True)

    left = [0, 2, 3]
    for action in several["actions"]:
        own = run.act(run.arms.find(left)[0])
        assert (action["slot"], action["arm"], action["probability"]) == own[:3]
        left.remove(action["arm"])
    assert several["skipped"] == 1
    assert several["actions"][-1]["probability"] == 1.0
    assert sorted(action["label"] for action in fewer["actions"]) == ARMS
    assert [action["slot"] for action in fewer["actions"]] == [4, 5, 6, 7]
    assert (await view(client))["outstanding"] == 7


async def test_the_same_key_gives_the_same_answer_and_another_body_none(client):
    await session(client)
    key = {"Idempotency-Key": "k"}

    first = await act(client, headers=key, eligible=["a", "b", "zz"])
    again = await act(client, headers=key, eligible=["a", "b", "zz"])
    other = await act(client, status=422, headers=key, eligible=["a"])
    nothing = await act(client, status=409, headers={"Idempotency-Key": "n"}, eligible=["zz"])
    await client.patch(f"{PATH}/arms", json={"add": ["zz"]})
    added = await act(client, headers={"Idempotency-Key": "n"}, eligible=["zz"])

    assert first == again
    assert other["code"] == "idempotency_conflict"
    assert nothing["code"] == "no_eligible_arm"
    assert added["label"] == "zz"


async def test_a_stored_answer_comes_before_nothing_left(client):
    """An act with a key is answered again when its arm has been removed since."""
    await session(client)
    key = {"Idempotency-Key": "k"}

    first = await act(client, headers=key, eligible=["a"])
    await client.patch(f"{PATH}/arms", json={"remove": ["a"]})

    assert await act(client, headers=key, eligible=["a"]) == first
    assert (await act(client, status=409, eligible=["a"]))["code"] == "no_eligible_arm"


async def test_several_processes_draw_each_slot_once_and_only_what_may_be_drawn(make_client, store):
    """Two workers, acts that conflict: slots count on, and every act draws within its own list."""
    clients = [await make_client(store) for _ in range(2)]
    await session(clients[0])
    allowed = [["a", "b"], ["c"], ["b", "d"]]

    async def some(number):
        body = {"count": 2, "distinct": True, "eligible": allowed[number % 3]}
        return (await acts(clients[number % 2], **body))["actions"]

    answers = await asyncio.gather(*(some(number) for number in range(12)))
    await clients[0].delete(PATH)

    for number, actions in enumerate(answers):
        assert {action["label"] for action in actions} == set(allowed[number % 3])
    slots = sorted(action["slot"] for actions in answers for action in actions)
    assert all(after == before + 1 for before, after in pairwise(slots))
    assert len(slots) == 20
