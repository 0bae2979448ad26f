"""What a view says of its session's past: hints why it may not learn, and its history."""

import math

import pytest

from service.serialization.summary import MAX_ARMS
from tests.support.one_session import made

EXPIRY = {"after_seconds": 64, "default_loss": 0}


async def opened(client, acts, **fields):
    await made(client, **{"learner": {"kind": "centred_tsallis", "n_arms": 1}, "loss_range": [1, 0]} | fields)
    for start in range(0, acts, 1000):
        await client.post("/v1/sessions/s/acts", json={"count": min(1000, acts - start)})


async def send(client, losses, query=""):
    events = [{"arm": 0, "loss": loss} for loss in losses]
    return await client.post(f"/v1/sessions/s/feedbacks{query}", json={"events": events})


async def codes(client):
    hints = (await client.get("/v1/sessions/s")).json()["hints"]
    assert all(hint["message"] for hint in hints)
    assert hints == (await client.get("/v1/sessions")).json()["sessions"][0]["hints"]
    return [hint["code"] for hint in hints]


async def test_a_hundred_slots_without_feedback(client):
    await opened(client, 99)
    assert await codes(client) == []
    await client.post("/v1/sessions/s/act")
    assert await codes(client) == ["no_feedback"]
    await send(client, [1])
    assert await codes(client) == []


async def test_the_first_window(client, clock):
    await opened(client, 0, expiry=EXPIRY)
    assert await codes(client) == []
    await client.post("/v1/sessions/s/acts", json={"count": 200})
    assert await codes(client) == ["first_window"]
    clock.now += 66
    view = (await client.get("/v1/sessions/s")).json()
    assert [hint["code"] for hint in view["hints"]] == ["equal_losses"]
    assert view["hints"][0]["message"].endswith(" No event has come yet.")


async def test_an_event_ends_the_hint_of_the_first_window(client):
    await opened(client, 2, expiry=EXPIRY)
    await send(client, [1])
    assert await codes(client) == []


async def test_clicks_alone_are_not_alike_where_other_decisions_count_as_their_default(client, clock):
    await opened(client, 101, learner={"kind": "multiscale_tsallis", "n_arms": 1}, expiry=EXPIRY)
    await send(client, [1] * 100)
    assert await codes(client) == []
    await send(client, [1])
    assert await codes(client) == ["equal_losses"]


async def test_a_hundred_equal_losses(client):
    await opened(client, 101)
    await send(client, [0.1] * 99)
    assert await codes(client) == []
    await send(client, [0.1])
    assert await codes(client) == ["equal_losses"]
    assert (await client.get("/v1/sessions/s")).json()["mean_loss"] == 0.1
    await send(client, [0.2])
    assert await codes(client) == []


@pytest.mark.parametrize("query", ["", "?on_surplus=skip"])
async def test_most_of_a_thousand_events_are_surplus(client, query):
    await opened(client, 499)
    await send(client, [0, 1] * 249)
    await send(client, [1] * 501, query)
    assert await codes(client) == []
    await send(client, [1] * 1, query)
    await client.post("/v1/sessions/s/act")  # a list shows what the last commit knew
    assert ("mostly_surplus" in await codes(client)) == bool(query)


async def test_a_thousand_outstanding_decisions(client):
    await opened(client, 1001)
    await send(client, [0, 1])
    assert await codes(client) == []
    await client.post("/v1/sessions/s/acts", json={"count": 2})
    assert await codes(client) == ["growing_outstanding"]
    await send(client, [0, 1] * 500)
    await client.post("/v1/sessions/s/acts", json={"count": 999})
    assert await codes(client) == []


async def test_the_view_says_when_the_last_act_and_event_were(client, clock):
    await opened(client, 0)
    before = (await client.get("/v1/sessions/s")).json()
    await client.post("/v1/sessions/s/act")
    clock.now += 1
    await send(client, [1])
    after = (await client.get("/v1/sessions/s")).json()

    assert (before["last_act_at"], before["last_event_at"], before["mean_loss"]) == (None, None, None)
    assert after["last_act_at"] == "1970-01-12T13:46:40.000Z"
    assert after["last_event_at"] == "1970-01-12T13:46:41.000Z"
    assert "counted_from_slot" not in after


async def test_effective_arms_are_the_exponential_of_the_entropy(client):
    await opened(client, 0, learner={"kind": "dexp3", "n_arms": 4})
    assert (await client.get("/v1/sessions/s")).json()["effective_arms"] == pytest.approx(4)
    arm = (await client.post("/v1/sessions/s/act")).json()["arm"]
    await client.post("/v1/sessions/s/feedback", json={"arm": arm, "loss": 0})

    view = (await client.get("/v1/sessions/s")).json()

    assert view["effective_arms"] == pytest.approx(math.exp(-sum(p * math.log(p) for p in view["probabilities"])))


async def test_lists_show_the_effective_arms_of_arms_just_changed(client):
    await opened(client, 0, learner={"kind": "centred_tsallis", "arms": ["a", "b"]})
    assert (await client.patch("/v1/sessions/s/arms", json={"add": ["c", "d"]})).status_code == 200
    (listed,) = (await client.get("/v1/sessions")).json()["sessions"]
    assert listed["effective_arms"] == pytest.approx(4)

    assert (await client.patch("/v1/sessions/s/arms", json={"pause": ["d"]})).status_code == 200
    (listed,) = (await client.get("/v1/sessions")).json()["sessions"]
    assert listed["effective_arms"] == pytest.approx(3)


DBGD = {"kind": "dbgd", "dim": 12, "feasible_set": {"kind": "ball", "radius": 1.0}}


async def sampled(client) -> None:
    await client._transport.app.state.runtime.sessions.sampler.sample()


async def test_a_new_session_has_no_history(client, create):
    answer = await client.get(f"{await create()}/history")

    assert answer.json() == {"period_seconds": 5.0, "samples": []}


async def test_a_history_shows_counts_and_shares(client, create):
    path = await create(learner={"kind": "multiscale_tsallis", "n_arms": 30}, reward_range=[0, 10])
    arm = (await client.post(f"{path}/act")).json()["arm"]
    await client.post(f"{path}/feedback", json={"arm": arm, "reward": 7.5})
    await client.post(f"{path}/act")
    await sampled(client)

    (sample,) = (await client.get(f"{path}/history")).json()["samples"]

    assert (sample["slot"], sample["feedbacks"], sample["outstanding"], sample["counted"]) == (2, 1, 1, 1)
    assert sample["mean_reward"] == 7.5
    assert 0 < sample["effective_arms"] <= 30
    shares = [share["probability"] for share in sample["arms"]]
    assert len(shares) == MAX_ARMS
    assert shares == sorted(shares, reverse=True)


async def test_a_history_of_points_shows_coordinates(client, create):
    path = await create(learner=DBGD)
    x = (await client.post(f"{path}/act")).json()["x"]
    await sampled(client)

    (sample,) = (await client.get(f"{path}/history")).json()["samples"]

    assert sample["x"] == x[:10]
    assert "arms" not in sample
    assert sample["mean_loss"] is None


async def test_a_history_ends_with_its_session(client, create):
    path = await create(session_id="s")
    await client.post(f"{path}/act")
    await sampled(client)
    await client.delete(path)
    await create(session_id="s")

    assert (await client.get(f"{path}/history")).json()["samples"] == []


async def test_it_can_be_turned_off(make_client):
    client = await make_client(history=False)
    await client.post("/v1/sessions", json={"session_id": "s", "learner": {"kind": "dexp3", "n_arms": 2}})

    assert (await client.get("/v1/sessions/s/history")).json()["samples"] == []
