"""How large, slow and full of faults a body may be."""

import pytest

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
