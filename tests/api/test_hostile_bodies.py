"""Bodies made to cost much: they are refused early, told of briefly, and keep nobody else waiting."""

import asyncio
import gc
import json
import time
from itertools import pairwise

import pytest

from tests.api.test_bodies import assert_problem, post

SECONDS = 1.5
"""Far more than a refusal takes (some 0.05 s), far less than telling of every fault took (3 to 10 s)."""


@pytest.mark.parametrize(
    "content",
    [
        pytest.param('{"events":[' + ",".join(["1"] * 900_000) + "]}", id="more events than allowed"),
        pytest.param('{"events":[' + ",".join(['{"loss":"x"}'] * 10_000) + "]}", id="all events wrong"),
        pytest.param(
            '{"events":[' + ",".join(['{"a":1,"b":1,"c":1,"d":1}'] * 10_000) + "]}", id="many faults each"
        ),
        pytest.param('{"losses":[' + ",".join(['""'] * 600_000) + "]}", id="all losses wrong"),
        pytest.param('{"arm":0,"loss":0,' + ",".join(f'"{n}":1' for n in range(150_000)) + "}", id="fields"),
    ],
)
@pytest.mark.parametrize("call", ["feedback", "feedbacks"])
async def test_not_every_fault_of_a_body_is_looked_for(client, create, content, call):
    path = await create()
    started = time.monotonic()

    assert_problem(await post(client, f"{path}/{call}", content), 422, "invalid_request")
    assert time.monotonic() - started < SECONDS


@pytest.mark.parametrize(
    "learner",
    [
        {"kind": "dexp3", "arms": [1] * 600_000},
        {"kind": "dbgd", "dim": 2, "feasible_set": {"kind": "box", "lower": ["x"] * 300_000, "upper": [1, 1]}},
    ],
    ids=["arms", "box"],
)
async def test_not_every_fault_of_a_learner_is_looked_for(client, learner):
    started = time.monotonic()

    assert_problem(await client.post("/v1/sessions", json={"learner": learner}), 422, "invalid_request")
    assert time.monotonic() - started < SECONDS


async def test_events_far_apart_are_refused_together(client, create):
    path = await create()
    events = [{"arm": 0, "loss": 0.5}] * 9_000
    for index in (7, 4_321, 8_999):
        events[index] = {"arm": 0, "loss": "x"}

    answer = await client.post(f"{path}/feedbacks", json={"events": events})

    assert_problem(answer, 422, "invalid_request")
    assert answer.json()["indexes"] == [7, 4_321, 8_999]


@pytest.mark.parametrize("character", ["x", "\U0001f600", "\u0001", '"', "\\"])
@pytest.mark.parametrize("call", ["feedback", "feedbacks", "acts"])
async def test_problems_stay_small_whatever_they_tell_of(client, create, character, call):
    path = await create()
    wrong = {"arm": 0, "loss": 0.5} | {character * 300 + str(number): 1 for number in range(40)}

    answer = await client.post(f"{path}/{call}", json={"events": [wrong] * 3} if call == "feedbacks" else wrong)

    assert_problem(answer, 422, "invalid_request")


async def longest_share(task):
    """The longest turn's share of this thread's own work until the task was done; 1 where others never had one.

    A ratio within one run, of processor time: what else the machine does, and how fast it is, cancels. The
    garbage collector would add turns of its own.
    """
    gc.disable()
    try:
        turns = [time.thread_time()]
        while not task.done():
            await asyncio.sleep(0)
            turns.append(time.thread_time())
    finally:
        gc.enable()
    return max(after - before for before, after in pairwise(turns)) / (turns[-1] - turns[0])


async def test_a_large_batch_lets_others_have_their_turn(client, create):
    path = await create(learner={"kind": "dexp3", "n_arms": 1})
    for _ in range(10):
        await client.post(f"{path}/acts", json={"count": 1000})
    events = [{"arm": 0, "loss": 0.5, "event_id": f"event-{number:0100}"} for number in range(10_000)]
    feeding = asyncio.create_task(post(client, f"{path}/feedbacks", json.dumps({"events": events})))

    share = await longest_share(feeding)

    assert (await feeding).json()["applied"] == 10_000
    assert share < 0.35, "some 0.16; applied in one turn 0.8 and more"


async def test_a_large_point_lets_others_have_their_turn(client, create):
    path = await create(learner={"kind": "dbgd", "dim": 1000, "feasible_set": {"kind": "simplex", "total": 1}})
    acting = asyncio.create_task(client.post(f"{path}/act"))

    share = await longest_share(acting)

    assert len((await acting).json()["query_points"]) == 1000
    assert share < 0.25, "some 0.08; written in one turn 0.99"
