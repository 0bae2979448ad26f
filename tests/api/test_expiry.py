"""Decisions that expire, unlearned or into a default loss, which may be learned at the act and corrected."""

import asyncio
import random

import pytest

from loadtest.replay.session import pass_time
from service.cooperative import BackgroundYield
from service.engine.ledger import ArmFeedback, Expiry, Params
from service.engine.run import ProvisionalRun, expire_oldest, start_run
from service.learners.dexp3 import Dexp3Spec
from service.models.specification import Specification
from service.models.stored import Stored
from tests.support import vectors
from tests.support.one_session import PATH, made

WINDOW = 64.0


ARMS = vectors.over_arms()


async def session(client, default_loss=0.0, **learner):
    expiry = {"after_seconds": WINDOW, "default_loss": default_loss}
    learner = {"kind": "dexp3", "n_arms": 3} | learner
    await made(client, learner=learner, loss_range=[1, 0], seed=4, expiry=expiry)
    return PATH


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
    assert (seen["expired"], seen["probabilities"]) == (run.ledger.expired, run.probabilities.tolist())
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
        *(
            ({"expiry": each}, 422)
            for each in ({"after_seconds": 5.0, "default_loss": 2}, {"after_seconds": 0}, {})
        ),
        *(({"expiry": each}, 201) for each in (None, {"after_seconds": 5, "default_loss": None})),
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

    assert (await client.post("/v1/sessions", json=body)).status_code == status
    if status == 201:
        await client.post("/v1/sessions/b/acts", json={"count": 3})
        await client.post("/v1/sessions/b/feedback", json={"losses": [1, 2, 3]})
        clock.now += 2 * WINDOW
        seen = (await client.get("/v1/sessions/b")).json()
        assert (seen["expired"], seen["outstanding"], seen["feedbacks"]) == (2, 0, 1)


@pytest.mark.slow
async def test_a_burst_is_worked_off_once_by_whoever_comes(make_client, client, memory, clock):
    clients = [client, await make_client(memory)]
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


EXPIRY = {"after_seconds": WINDOW, "default_loss": 0.0}


SHOP = {"learner": {"kind": "multiscale_tsallis", "arms": ["a", "b", "c"]}, "loss_range": [1, 0], "seed": 4}


async def provisional(client, **fields):
    return await client.post("/v1/sessions", json={"session_id": "s", **SHOP, "expiry": EXPIRY, **fields})


def twin(clock, **fields):
    """The same session in process."""
    run = Stored.of(Specification.model_validate({**SHOP, "expiry": EXPIRY, **fields})).start()
    pass_time(run, clock.now)
    return run


async def test_it_is_provisional_unless_asked_otherwise(client):
    created = await provisional(client)
    other = await provisional(client, session_id="w", expiry=EXPIRY | {"provisional": False})

    assert created.json()["expiry"] == EXPIRY | {"provisional": True}
    assert other.json()["expiry"] == EXPIRY | {"provisional": False}


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({}, 200),
        *(
            ({"expiry": EXPIRY | {"provisional": said}}, 409 if said is False else 200)
            for said in (True, None, False)
        ),
        ({"expiry": EXPIRY | {"default_loss": None}}, 409),
    ],
)
async def test_posting_it_again_means_the_same_session(client, fields, status):
    await provisional(client)

    assert (await provisional(client, **fields)).status_code == status


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
    response = await provisional(client, **({"expiry": EXPIRY | {"provisional": True}} | fields))

    assert response.status_code == 422
    assert "provisional" in response.text


@pytest.mark.parametrize("learner", [{"kind": "centred_tsallis", "n_arms": 3}, {"kind": "dexp3", "n_arms": 3}])
async def test_other_sessions_do_not_show_it(client, learner):
    response = await provisional(client, learner=learner, expiry=EXPIRY | {"provisional": False})

    assert response.json()["expiry"] == EXPIRY


async def test_acts_teach_at_once_and_the_end_of_the_window_nothing(client, clock):
    await provisional(client)
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
    await provisional(client, learner={"kind": "multiscale_tsallis", "n_arms": 1})
    await client.post(f"{PATH}/act")
    click = {"events": [{"arm": 0, "loss": 1}] * 2}

    first = (await client.post(f"{PATH}/feedbacks", json=click)).json()
    await client.post(f"{PATH}/act")
    clock.now += 2 * WINDOW
    late = (await client.post(f"{PATH}/feedbacks", json=click)).json()

    assert (first["applied"], first["surplus"], first["outstanding"]) == (1, 1, 0)
    assert (late["applied"], late["surplus"], late["outstanding"]) == (0, 2, 0)


@pytest.mark.parametrize("is_provisional", [True, False])
async def test_a_session_gives_the_numbers_of_its_twin(make_client, client, memory, clock, is_provisional):
    """Clicks, windows that end, arms that come and go; the service is started anew on the same store."""
    chance, expiry = random.Random(3), {"expiry": EXPIRY | {"provisional": is_provisional}}
    await provisional(client, **expiry)
    run, actions = twin(clock, **expiry), []
    assert isinstance(run, ProvisionalRun) == is_provisional

    for t in range(80):
        if t % 20 == 19:
            client = await make_client(memory)
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
    rows = (await client.get(f"{PATH}/arms")).json()["arms"]
    assert [row["best_chance"] for row in rows] == run.learner.best_chance(run.state).tolist()


async def test_a_void_takes_the_charge_back(client, clock):
    await provisional(client)
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


@pytest.mark.parametrize("word", ["loss", "reward"])
async def test_a_window_over_arms_says_what_silence_stands_for(client, word):
    """Null is a choice. Sessions over points have none."""
    body = {"session_id": "s", "learner": {"kind": "dexp3", "n_arms": 2}, f"{word}_range": [0, 1]}
    silent, chosen = {"after_seconds": WINDOW}, {"after_seconds": WINDOW, f"default_{word}": None}
    ball = {"kind": "dbgd", "dim": 2, "feasible_set": {"kind": "ball", "radius": 1.0}}

    refused = [await client.post("/v1/sessions", json=body | {"expiry": silent})]
    assert (await client.post("/v1/sessions", json=body | {"expiry": chosen})).status_code == 201
    refused.append(await client.patch("/v1/sessions/s", json={"expiry": silent}))
    assert (await client.patch("/v1/sessions/s", json={"expiry": chosen | {"after_seconds": 9}})).status_code == 200
    assert (await client.patch("/v1/sessions/s", json={"floor": None})).status_code == 200
    assert (await client.post("/v1/sessions", json={"learner": ball, "expiry": silent})).status_code == 201

    for answer in refused:
        (error,) = answer.json()["errors"]
        assert (answer.status_code, error["field"]) == (422, f"expiry.default_{word}")
        assert f"give the {word} that" in error["message"]
