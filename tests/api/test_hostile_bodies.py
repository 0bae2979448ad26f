"""Bodies made to cost much: they are refused early, told of briefly, and keep nobody else waiting."""

import time

import pytest

from tests.support.problems import assert_problem, post

SECONDS = 2.5
"""Of processor time, which a busy machine does not stretch: far more than a refusal takes (some 0.05 s), far less
than telling of every fault took (3 to 10 s)."""


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
    started = time.process_time()

    assert_problem(await post(client, f"{path}/{call}", content), 422, "invalid_request")
    assert time.process_time() - started < SECONDS


@pytest.mark.parametrize(
    "learner",
    [
        {"kind": "dexp3", "arms": [1] * 600_000},
        {"kind": "dbgd", "dim": 2, "feasible_set": {"kind": "box", "lower": ["x"] * 300_000, "upper": [1, 1]}},
    ],
    ids=["arms", "box"],
)
async def test_not_every_fault_of_a_learner_is_looked_for(client, learner):
    started = time.process_time()

    assert_problem(await client.post("/v1/sessions", json={"learner": learner}), 422, "invalid_request")
    assert time.process_time() - started < SECONDS


@pytest.mark.parametrize(
    ("call", "body", "field", "index"),
    [
        ("/feedback", {"losses": [0] * 1002}, "losses", None),
        ("/feedback", {"gradient": [0] * 1001}, "gradient", None),
        ("/feedbacks", {"events": [{"losses": [0]}, {"losses": [0] * 1002}]}, "losses", 1),
        ("/feedbacks", {"events": [{"gradient": [0] * 1001}]}, "gradient", 0),
        *(
            ("", {"learner": {"kind": "dbgd", "dim": 2, "feasible_set": {name: [0] * 1001}}}, name, None)
            for name in ("center", "lower", "upper")
        ),
    ],
)
async def test_lists_longer_than_any_point_are_refused_unread(client, create, call, body, field, index):
    path = await create() if call else "/v1/sessions"

    answer = await client.post(path + call, json=body)

    assert_problem(answer, 422, "invalid_request")
    (error,) = answer.json()["errors"]
    assert (error["field"].rpartition(".")[2], error["index"]) == (field, index)
    assert error["message"].startswith("at most 100")


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
