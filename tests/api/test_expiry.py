"""Decisions that expire into a default loss, by HTTP and in process."""

from __future__ import annotations

import asyncio

import pytest

from service.cooperative import BackgroundYield
from service.engine.ledger import Expiry, Params
from service.engine.run import expire_oldest, start_run
from service.learners.dexp3 import Dexp3Spec
from service.store.memory import MemoryStore
from tests.support import vectors

WINDOW = 64.0
ARMS = vectors.over_arms()


@pytest.fixture
async def client(make_client, clock):
    return await make_client(MemoryStore(clock=clock))


async def session(client, default_loss=0.0, **learner):
    body = {
        "session_id": "s",
        "learner": {"kind": "dexp3", "n_arms": 3} | learner,
        "loss_range": [1, 0],
        "seed": 4,
        "expiry": {"after_seconds": WINDOW, "default_loss": default_loss},
    }
    response = await client.post("/v1/sessions", json=body)
    assert response.status_code == 201, response.text
    return "/v1/sessions/s"


async def test_decisions_without_feedback_expire_at_the_default_loss(client, clock):
    path = await session(client)
    run = start_run(Params(Dexp3Spec(n_arms=3), 4, expiry=Expiry(WINDOW, 1.0)))
    for _ in range(10):
        await client.post(f"{path}/act")
        run.advance(clock.now)
        run.act()
        clock.now += 1

    clock.now = 1_000_000.0 + WINDOW
    assert (await client.get(path)).json()["expired"] == 0
    clock.now += 4.5
    seen = (await client.get(path)).json()
    run.advance(clock.now)
    while run.due:
        for _ in expire_oldest(run):
            pass

    assert (seen["expired"], seen["outstanding"], seen["feedbacks"]) == (4, 6, 0)
    assert seen["expired"] == run.ledger.expired
    assert seen["probabilities"] == run.probabilities.tolist()
    assert seen["expiry"] == {"after_seconds": WINDOW, "default_loss": 0.0}
    assert (await client.get(path)).json() == seen


async def test_acting_commits_what_is_due_first(client, clock):
    path = await session(client)
    await client.post(f"{path}/acts", json={"count": 5})
    clock.now += 2 * WINDOW

    await client.post(f"{path}/act")
    seen = (await client.get(path)).json()

    assert (seen["slot"], seen["expired"], seen["outstanding"]) == (6, 5, 1)


async def two_acts_half_a_window_apart(client, clock):
    path = await session(client, n_arms=1)
    await client.post(f"{path}/act")
    clock.now += WINDOW / 2
    await client.post(f"{path}/act")
    return path


async def test_a_late_click_settles_the_oldest_decision_or_is_skipped(client, clock):
    path = await two_acts_half_a_window_apart(client, clock)
    clock.now += WINDOW / 2 + 2

    click = {"arm": 0, "loss": 1}
    answers = [(await client.post(f"{path}/feedback", json=click)).json() for _ in range(2)]
    seen = (await client.get(path)).json()

    assert [(answer["applied"], answer["surplus"]) for answer in answers] == [(1, 0), (0, 1)]
    assert (seen["expired"], seen["feedbacks"], seen["outstanding"]) == (1, 1, 0)


async def test_a_click_leaves_the_younger_decision_to_expire(client, clock):
    path = await two_acts_half_a_window_apart(client, clock)
    await client.post(f"{path}/feedback", json={"arm": 0, "loss": 1})
    clock.now += WINDOW / 2 + 2
    assert (await client.get(path)).json()["expired"] == 0
    clock.now += WINDOW / 2

    seen = (await client.get(path)).json()

    assert (seen["expired"], seen["feedbacks"], seen["outstanding"]) == (1, 1, 0)


def test_decisions_of_one_bucket_and_arm_are_one_step():
    run, twin = (start_run(Params(Dexp3Spec(n_arms=2), 1, expiry=Expiry(WINDOW, 1.0))) for _ in range(2))
    for each in (run, twin):
        each.advance(0.0)
        for _ in range(6):
            each.act()
    counts = run.ledger.by_arm.tolist()
    run.advance(2 * WINDOW)

    steps = sum(1 for _ in expire_oldest(run))

    state = twin.state
    for arm, count in enumerate(counts):
        state = twin.learner.settle(state, arm, 1.0, count)
    assert steps == 2
    assert run.probabilities.tolist() == state.p.tolist()


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"expiry": {"after_seconds": 5.0, "default_loss": 2}}, 422),
        ({"expiry": {"after_seconds": 0}}, 422),
        ({"expiry": {}}, 422),
        ({"expiry": None}, 201),
        ({"expiry": {"after_seconds": 5}}, 201),
        ({"expiry": {"after_seconds": 5, "default_loss": -10}, "loss_range": [10, -10]}, 201),
        (
            {"expiry": {"after_seconds": 5, "default_loss": -1}, "loss_range": [-2, 2], "normalize_losses": False},
            422,
        ),
    ],
)
async def test_expiry_is_checked(client, fields, status):
    response = await client.post("/v1/sessions", json={"learner": {"kind": "dexp3", "n_arms": 2}} | fields)

    assert response.status_code == status


@pytest.mark.parametrize(("default_loss", "status"), [(None, 201), (0.5, 422)])
async def test_points_expire_without_a_loss(client, clock, default_loss, status):
    ball = {"kind": "dbgd", "dim": 2, "feasible_set": {"kind": "ball", "radius": 1.0}}
    body = {"session_id": "b", "learner": ball, "expiry": {"after_seconds": WINDOW, "default_loss": default_loss}}

    response = await client.post("/v1/sessions", json=body)
    assert response.status_code == status
    if status == 201:
        await client.post("/v1/sessions/b/acts", json={"count": 3})
        await client.post("/v1/sessions/b/feedback", json={"losses": [1, 2, 3]})
        clock.now += 2 * WINDOW
        seen = (await client.get("/v1/sessions/b")).json()
        assert (seen["expired"], seen["outstanding"], seen["feedbacks"]) == (2, 0, 1)


@pytest.mark.slow
async def test_a_burst_is_worked_off_once_by_whoever_comes(make_client, clock):
    store = MemoryStore(clock=clock)
    clients = [await make_client(store), await make_client(store)]
    path = await session(clients[0], n_arms=200)
    for _ in range(60):
        await clients[0].post(f"{path}/acts", json={"count": 500})
        clock.now += 1.01
    clock.now += 2 * WINDOW

    for client in clients:
        await client.post(f"{path}/act")
    seen = (await clients[0].get(path)).json()

    assert (seen["slot"], seen["expired"], seen["outstanding"]) == (30_002, 30_000, 2)


async def test_a_view_that_settles_is_not_disturbed_by_commits(client, clock, monkeypatch):
    path = await session(client, kind="exp3", **ARMS["exp3"])
    monkeypatch.setattr(BackgroundYield, "slice_seconds", 0.0)

    async def view_after(passes):
        for _ in range(passes):
            await asyncio.sleep(0)
        return await client.get(path)

    for _ in range(5):
        await client.post(f"{path}/acts", json={"count": 20})
        clock.now += 2 * WINDOW

        views = (view_after(passes) for passes in range(0, 80, 4))
        acted, *seen = await asyncio.gather(client.post(f"{path}/act"), *views)

        assert [response.status_code for response in (acted, *seen)] == [200] * 21
        assert {response.json()["outstanding"] for response in seen} <= {0, 1}
