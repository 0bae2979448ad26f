"""Sessions with a floor: a share of the draws that is uniform over the arms that may be drawn."""

from __future__ import annotations

import pytest

from service.engine.ledger import ArmFeedback, Params
from service.engine.run import start_run
from service.learners import REGISTRY
from tests.support.one_session import ARMS, KINDS, PATH, TAKES, act, session, view


@pytest.mark.parametrize("kind", TAKES)
async def test_the_numbers_are_those_of_the_run_in_process_and_no_arm_falls_below_its_share(client, kind):
    await session(client, kind=kind, floor=0.2)
    spec = REGISTRY[kind].model_validate({"kind": kind, "arms": ARMS} | KINDS[kind])
    run = start_run(Params(spec, 7, floor=0.2))

    for number in range(60):
        arms = [[0, 1, 2, 3], [0, 1], [1, 2, 3]][number % 3]
        action, own = await act(client, eligible=arms), run.act(run.arms.find(arms)[0])
        assert (action["slot"], action["arm"], action["probability"]) == own[:3]
        assert action["probability"] >= 0.2 / len(arms)
        loss = 1.0 if action["arm"] else 0.0
        event = {"arm": action["arm"], "loss": loss, "slot": action["slot"]}
        assert (await client.post(f"{PATH}/feedback", json=event)).status_code == 200
        run.settle(ArmFeedback(action["arm"], loss, action["slot"]))

    seen = await view(client)
    assert seen["floor"] == 0.2
    assert seen["probabilities"] == run.probabilities.tolist()
    assert min(seen["probabilities"]) >= 0.05
    assert sum(seen["probabilities"]) == pytest.approx(1)


async def test_no_floor_is_a_floor_of_0(client):
    without = await session(client)
    again = await client.post(
        "/v1/sessions", json={"session_id": "s", "learner": {"kind": "centred_tsallis", "arms": ARMS}, "floor": 0}
    )
    other = await client.post(
        "/v1/sessions", json={"session_id": "s", "learner": {"kind": "centred_tsallis", "arms": ARMS}, "floor": 0.1}
    )

    assert without["floor"] == 0
    assert (again.status_code, again.json()) == (200, without)
    assert (other.status_code, other.json()["code"]) == (409, "session_exists")


@pytest.mark.parametrize("floor", [1, 1.5, -0.1, "0.1", True])
async def test_a_floor_is_a_number_below_1(client, floor):
    body = {"session_id": "s", "learner": {"kind": "centred_tsallis", "arms": ARMS}, "floor": floor}
    answer = await client.post("/v1/sessions", json=body)

    assert answer.status_code == 422
    assert [error["field"] for error in answer.json()["errors"]] == ["floor"]


@pytest.mark.parametrize("kind", sorted(REGISTRY.keys() - set(TAKES)))
async def test_learners_that_do_not_define_it_say_so(client, kind):
    over_points = {"dim": 2, "feasible_set": {"kind": "ball", "radius": 1.0}, "horizon": 10, "total_delay": 5}
    known = REGISTRY[kind].model_fields.keys()
    fields = KINDS[kind] | {"n_arms": 3} if kind in KINDS else over_points
    if "max_delay" in known and kind not in KINDS:
        fields["max_delay"] = 1
    learner = {"kind": kind} | {name: value for name, value in fields.items() if name in known}
    body = {"session_id": "s", "learner": learner}

    answer = await client.post("/v1/sessions", json=body | {"floor": 0.1})

    assert answer.status_code == 422, answer.text
    assert [error["field"] for error in answer.json()["errors"]] == ["floor"]
    assert (await client.post("/v1/sessions", json=body | {"floor": 0})).status_code == 201


async def test_a_floor_alone_draws_fixed_arms_at_0(client):
    """It applies before it is judged whether an arm is left."""
    probabilities = {"a": 0.5, "b": 0.5, "c": 0, "d": 0}
    await session(client, kind="fixed", learner={"probabilities": probabilities}, floor=0.5)

    action = await act(client, eligible=["c", "d"])

    assert action["probability"] == 0.5
    assert (await view(client))["probabilities"] == [0.375, 0.375, 0.125, 0.125]
