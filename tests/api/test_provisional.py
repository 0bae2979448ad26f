"""A default loss that is learned at the act and corrected by an event, by HTTP and in process."""

from __future__ import annotations

import random
from typing import Any

import pytest

from loadtest.replay.session import pass_time
from service.engine.arm_run import ArmRun
from service.engine.ledger import ArmFeedback
from service.engine.run import ProvisionalRun
from service.models.specification import Specification
from service.models.stored import Stored
from service.store.memory import MemoryStore

WINDOW = 64.0
EXPIRY = {"after_seconds": WINDOW, "default_loss": 0.0}
SHOP = {"learner": {"kind": "multiscale_tsallis", "arms": ["a", "b", "c"]}, "loss_range": [1, 0], "seed": 4}
PATH = "/v1/sessions/s"


@pytest.fixture
async def client(make_client, clock):
    return await make_client(MemoryStore(clock=clock))


async def create(client, **fields):
    return await client.post("/v1/sessions", json={"session_id": "s", **SHOP, "expiry": EXPIRY, **fields})


def twin(clock, **fields: Any) -> ArmRun:
    """The same session in process."""
    run = Stored.of(Specification.model_validate({**SHOP, "expiry": EXPIRY, **fields})).start()
    pass_time(run, clock.now)
    return run


async def test_it_is_provisional_unless_asked_otherwise(client):
    created = await create(client)
    other = await create(client, session_id="w", expiry=EXPIRY | {"provisional": False})

    assert created.json()["expiry"] == EXPIRY | {"provisional": True}
    assert other.json()["expiry"] == EXPIRY | {"provisional": False}


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({}, 200),
        ({"expiry": EXPIRY | {"provisional": True}}, 200),
        ({"expiry": EXPIRY | {"provisional": None}}, 200),
        ({"expiry": EXPIRY | {"provisional": False}}, 409),
        ({"expiry": EXPIRY | {"default_loss": None}}, 409),
    ],
)
async def test_posting_it_again_means_the_same_session(client, fields, status):
    await create(client)

    assert (await create(client, **fields)).status_code == status


@pytest.mark.parametrize(
    "fields",
    [
        {"learner": {"kind": "centred_tsallis", "n_arms": 3}},
        {"learner": {"kind": "dexp3", "n_arms": 3}},
        {"expiry": {"after_seconds": 5, "provisional": True}},
        {"expiry": {"after_seconds": 5, "default_loss": 0, "provisional": 1}},
    ],
)
async def test_it_is_refused_where_it_means_nothing(client, fields):
    response = await create(client, **({"expiry": EXPIRY | {"provisional": True}} | fields))

    assert response.status_code == 422
    assert "provisional" in response.text


@pytest.mark.parametrize("learner", [{"kind": "centred_tsallis", "n_arms": 3}, {"kind": "dexp3", "n_arms": 3}])
async def test_other_sessions_do_not_show_it(client, learner):
    response = await create(client, learner=learner, expiry=EXPIRY | {"provisional": False})

    assert response.json()["expiry"] == EXPIRY


async def test_acts_teach_at_once_and_the_end_of_the_window_nothing(client, clock):
    await create(client)
    await client.post(f"{PATH}/acts", json={"count": 9})
    for _ in range(2):
        await client.post(f"{PATH}/feedback", json={"label": "b", "loss": 1})
        await client.post(f"{PATH}/act")
    before = (await client.get(PATH)).json()
    clock.now += 2 * WINDOW
    after = (await client.get(PATH)).json()

    assert before["probabilities"][1] == max(before["probabilities"]) > 1 / 3
    assert (before["outstanding"], before["expired"]) == (9, 0)
    assert (after["outstanding"], after["expired"], after["feedbacks"]) == (0, 9, 2)
    assert after["probabilities"] == before["probabilities"]


async def test_an_act_is_corrected_once_and_within_its_window(client, clock):
    await create(client, learner={"kind": "multiscale_tsallis", "n_arms": 1})
    await client.post(f"{PATH}/act")
    click = {"events": [{"arm": 0, "loss": 1}] * 2}

    first = (await client.post(f"{PATH}/feedbacks", json=click)).json()
    await client.post(f"{PATH}/act")
    clock.now += 2 * WINDOW
    late = (await client.post(f"{PATH}/feedbacks", json=click)).json()

    assert (first["applied"], first["surplus"], first["outstanding"]) == (1, 1, 0)
    assert (late["applied"], late["surplus"], late["outstanding"]) == (0, 2, 0)


@pytest.mark.parametrize("is_provisional", [True, False])
async def test_a_session_gives_the_numbers_of_its_twin_in_process(make_client, clock, is_provisional):
    """Clicks, windows that end, arms that come and go; the service is started anew on the same store."""
    store, chance = MemoryStore(clock=clock), random.Random(3)
    client, expiry = await make_client(store), {"expiry": EXPIRY | {"provisional": is_provisional}}
    await create(client, **expiry)
    run, actions = twin(clock, **expiry), []
    assert isinstance(run, ProvisionalRun) == is_provisional

    for t in range(120):
        if t % 40 == 39:
            client = await make_client(store)
            change = {"add": [f"new{t}"], "remove": [run.arms.names[run.arms.live[0]]]}
            assert (await client.patch(f"{PATH}/arms", json=change)).status_code == 200
            run.change_arms(run.arms.change(**change))
        body = (await client.post(f"{PATH}/act")).json()
        actions.append(run.act())
        assert (body["slot"], body["arm"], body["probability"]) == actions[-1][:3]
        if chance.random() < 0.3:
            event = ArmFeedback(chance.choice(actions[-9:]).arm, 0.0)
            if not run.is_removed(event) and not run.surplus([event]):
                run.settle(event)
                answer = await client.post(f"{PATH}/feedback", json={"arm": event.arm, "loss": 1})
                assert answer.json()["applied"] == 1
        clock.now += chance.choice([0, 1, 1, 5, 30])
        pass_time(run, clock.now)
    view = (await client.get(PATH)).json()

    assert view["probabilities"] == run.probabilities.tolist()
    assert (view["outstanding"], view["expired"]) == (run.ledger.outstanding, run.ledger.expired)
    assert min(view["expired"], view["removed"], view["feedbacks"]) > 0


def test_a_decision_taken_back_was_never_charged(clock):
    run = twin(clock)
    for _ in range(20):
        run.act()
    run.settle(ArmFeedback(0, 0.0))
    action = run.act()
    charged = run.state

    run.void(ArmFeedback(action.arm, 0.0))

    assert run.state.events == charged.events - 1 == 20
    assert run.state.mean < charged.mean
    assert (run.ledger.voided, run.ledger.outstanding) == (1, 19)


async def test_a_void_takes_the_charge_back(client, clock):
    await create(client)
    run = twin(clock)
    for _ in range(12):
        arm = (await client.post(f"{PATH}/act")).json()["arm"]
        run.act()
        event = ArmFeedback(arm, 0.0)
        run.settle(event) if arm == 1 else run.void(event)
        answer = await client.post(f"{PATH}/feedback", json={"arm": arm, "loss": 1 if arm == 1 else None})
        assert answer.json()["applied" if arm == 1 else "voided"] == 1
    body = (await client.post(f"{PATH}/act")).json()

    assert (body["arm"], body["probability"]) == run.act()[1:3]
    assert (await client.get(PATH)).json()["outstanding"] == 1
