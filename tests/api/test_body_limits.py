"""How large, slow and full of faults a body may be."""

import pytest

from service.models.events import ArmEvent
from tests.support.problems import assert_problem, post


@pytest.mark.parametrize(
    "content",
    [
        pytest.param('{"losses":[' + ",".join(["[]"] * 600_000) + "]}", id="arrays"),
        pytest.param('{"losses":[' + ",".join(["[" * 900 + "]" * 900] * 1_000) + "]}", id="nested"),
        pytest.param('{"events":[' + ",".join(["{}"] * 600_000) + "]}", id="objects"),
        pytest.param('{"arm":0,' + ",".join(f'"{n}":0' for n in range(150_000)) + "}", id="fields"),
        pytest.param('{"losses":[' + ",".join(['""'] * 600_000) + "]}", id="texts"),
    ],
)
async def test_bodies_of_too_many_parts_are_refused_before_they_are_read(client, create, content):
    path = await create()

    answer = await post(client, f"{path}/feedback", content)

    assert_problem(answer, 422, "invalid_request")
    assert answer.json()["detail"] == "The body has too many parts"


@pytest.mark.parametrize("headers", [{}, {"Idempotency-Key": "once"}], ids=["plain", "keyed"])
async def test_the_longest_batch_with_every_field_is_taken_where_few_arms_are_allowed(make_client, headers):
    client = await make_client(max_arms=2, max_events=1000)
    session = {
        "session_id": "s",
        "learner": {"kind": "multiscale_tsallis", "arms": ["a", "b"]},
        "segments": {"max": 2},
    }
    assert (await client.post("/v1/sessions", json=session)).status_code == 201
    await client.post("/v1/sessions/s/acts", json={"count": 1000, "eligible": ["a"], "segment": "s"})
    whole = {"label": "a", "loss": 1, "slot": 1, "segment": "s"}
    assert {*whole, "arm", "event_id"} == ArmEvent.model_fields.keys()  # A label stands for an arm.
    events = [{**whole, "event_id": f"event {number}"} for number in range(1000)]

    answer = await client.post("/v1/sessions/s/feedbacks", json={"events": events}, headers=headers)

    assert (answer.status_code, answer.json().get("applied")) == (200, 1000), answer.text


LABELS = [f"the label of the arm with the number {number}" for number in range(1000)]


@pytest.mark.parametrize(
    "fields",
    [
        {"initial": [{"label": label, "acts": 3, "mean_loss": 0.5} for label in LABELS]},
        {"learner": {"kind": "fixed", "arms": LABELS, "probabilities": dict.fromkeys(LABELS, 0.001)}},
    ],
    ids=lambda fields: next(iter(fields)),
)
async def test_all_that_can_be_said_of_each_arm_is_taken_where_few_events_are_allowed(make_client, fields):
    client = await make_client(max_arms=1000, max_events=1)
    learner = {"kind": "multiscale_tsallis", "arms": LABELS}

    answer = await client.post("/v1/sessions", json={"session_id": "s", "learner": learner} | fields)

    assert answer.status_code == 201, answer.text


async def test_an_act_may_exclude_many_where_few_events_and_arms_are_allowed(make_client):
    client = await make_client(max_arms=2, max_events=1)
    await client.post(
        "/v1/sessions", json={"session_id": "s", "learner": {"kind": "multiscale_tsallis", "arms": ["a", "b"]}}
    )

    answer = await client.post("/v1/sessions/s/act", json={"exclude": [f"label {n}" for n in range(10_000)]})

    assert (answer.status_code, answer.json()["skipped"]) == (200, 10_000), answer.text


async def test_what_texts_hold_is_no_part(client):
    labels = [f'{number}[{{:"\\' + "[{" * 30 for number in range(5_000)]

    answer = await client.post("/v1/sessions", json={"learner": {"kind": "dexp3", "arms": labels}})

    assert answer.status_code == 201
    assert answer.json()["learner"]["arms"] == labels


async def test_large_bodies_are_refused_declared_or_chunked(client, create):
    path = await create()

    async def chunks():
        for _ in range(40):
            yield b" " * 100_000

    declared = await post(client, f"{path}/feedbacks", b" " * 2_000_001)
    chunked = await post(client, f"{path}/feedbacks", chunks())

    assert_problem(declared, 413, "payload_too_large")
    assert_problem(chunked, 413, "payload_too_large")


async def test_slow_bodies_are_cut(make_client):
    import asyncio

    client = await make_client(body_timeout_seconds=0.05)
    never = asyncio.Event()

    async def slow():
        yield b"{"
        await never.wait()

    assert_problem(await post(client, "/v1/sessions", slow()), 408, "request_timeout")


async def test_ten_thousand_events_are_taken_and_one_more_refused(client, create):
    path = await create(learner={"kind": "dexp3", "n_arms": 1})
    for _ in range(10):
        await client.post(f"{path}/acts", json={"count": 1000})
    events = [{"arm": 0, "loss": 0.5}] * 10_000

    refused = await client.post(f"{path}/feedbacks", json={"events": [*events, events[0]]})
    taken = await client.post(f"{path}/feedbacks", json={"events": events})

    assert_problem(refused, 422, "invalid_request")
    assert taken.json()["applied"] == 10_000


async def test_many_wrong_events_make_a_short_answer(client, create):
    path = await create()
    text = "x" * 1000

    response = await client.post(
        f"{path}/feedbacks", json={"events": [{"arm": text, "loss": text, text: text}] * 300}
    )

    assert_problem(response, 422, "invalid_request")
    assert len(response.json()["errors"]) == 20
    assert "x" * 300 not in response.text
