"""Every learner over HTTP: its own kind of feedback, the same numbers as in process, also after a restart."""

from __future__ import annotations

from typing import Any

import httpx
import numpy as np
import pytest

from service.engine.ledger import ArmAction, ArmFeedback, PointFeedback
from service.engine.run import Run
from service.learners import REGISTRY
from service.learners.base import Information
from service.store import open_store
from service.store.base import Store
from tests.support import vectors
from tests.support.runs import start

RANDOM_POINTS = {
    "kind": "clw_mbco",
    "dim": 2,
    "feasible_set": {"kind": "box", "lower": [-1.0, -1.0], "upper": [2.0, 1.0]},
    "max_delay": 1,
    "learning_rate": 0.05,
    "perturbation": 0.1,
    "schedule": "random",
}
SPECS = [
    *(pytest.param(vectors.traces(kind)[0]["spec"], id=kind) for kind in REGISTRY),
    pytest.param(
        {"kind": "clw", "n_arms": 3, "learning_rate": 0.5, "max_delay": 1, "schedule": "random"}, id="random"
    ),
    pytest.param(RANDOM_POINTS, id="random-points"),
    pytest.param({"kind": "centred_tsallis", "n_arms": 5, "tracking": True}, id="tracking"),
    pytest.param({"kind": "bold", "n_arms": 3, "horizon": 40, "max_delay": 4, "max_open_slots": 3}, id="few-slots"),
]
EXP3 = {"kind": "exp3", "n_arms": 3, "learning_rate": 0.5}


async def post(client: httpx.AsyncClient, path: str, body: Any = None) -> httpx.Response:
    return await client.post(path, json=body)


async def create(client: httpx.AsyncClient, spec: dict[str, Any], name: str = "s") -> str:
    response = await post(client, "/v1/sessions", {"session_id": name, "learner": spec, "seed": 11})
    assert response.status_code == 201, response.text
    return f"/v1/sessions/{name}"


def event_for(run: Run, action: Any, rng: np.random.Generator) -> tuple[Any, dict[str, Any]]:
    """One decision's feedback, for the run in process and as it is posted."""
    if isinstance(action, ArmAction):
        loss = float(rng.random())
        return ArmFeedback(action.arm, loss, action.slot), {"arm": action.arm, "loss": loss, "slot": action.slot}
    gradient = run.learner.information is Information.GRADIENT
    values = rng.normal(size=action.x.size + (not gradient))
    return PointFeedback(values), {"gradient" if gradient else "losses": values.tolist()}


@pytest.mark.parametrize("spec", SPECS)
async def test_a_session_gives_the_numbers_of_its_twin_in_process(
    spec: dict[str, Any], store: Store, make_client: Any
) -> None:
    """Delays up to 4; the service is started anew on the same store twice."""
    client = await make_client(store)
    path = await create(client, spec)
    twin = start(spec, seed=11)
    rng, waiting = np.random.default_rng(3), []

    for t in range(40):
        if t % 14 == 13:
            client = await make_client(store)
        body = (await post(client, f"{path}/act")).json()
        action = twin.act()
        assert body["slot"] == action.slot
        if isinstance(action, ArmAction):
            assert (body["arm"], body["probability"]) == (action.arm, action.probability)
        else:
            assert body["x"] == action.x.tolist()
            assert body.get("query_points") == (
                None if action.query_points is None else action.query_points.tolist()
            )
        waiting.append(event_for(twin, action, rng))
        while len(waiting) > t % 5:
            event, posted = waiting.pop(int(rng.integers(len(waiting))))
            if twin.surplus([event]):
                continue
            response = await post(client, f"{path}/feedback", posted)
            assert response.status_code == 200, response.text
            twin.settle(event)

    view = (await client.get(path)).json()
    assert (view["outstanding"], view["expired"]) == (twin.ledger.outstanding, twin.ledger.expired)
    if "probabilities" in view:
        assert view["probabilities"] == twin.probabilities.tolist()


async def test_open_slots_outlive_the_service_on_every_store(store: Store, make_client: Any) -> None:
    client = await make_client(store)
    path = await create(client, EXP3)
    actions = (await post(client, f"{path}/acts", {"count": 30})).json()["actions"]
    settled = [{"arm": a["arm"], "loss": 0.5, "slot": a["slot"]} for a in actions]
    assert (await post(client, f"{path}/feedbacks", {"events": settled[:20]})).status_code == 200

    client = await make_client(store)

    refused = await post(client, f"{path}/feedbacks", {"events": settled[18:22]})
    assert refused.status_code == 409
    assert refused.json()["indexes"] == [0, 1]
    assert (await post(client, f"{path}/feedbacks", {"events": settled[20:]})).json()["outstanding"] == 0
    await client.delete(path)
    assert await store.read_records("s") == {}


async def test_two_workers_share_the_open_slots(make_client: Any) -> None:
    store = open_store("memory://")
    one, two = await make_client(store), await make_client(store)
    path = await create(one, EXP3)

    for turn in range(20):
        acting, settling = (one, two) if turn % 2 else (two, one)
        action = (await post(acting, f"{path}/act")).json()
        event = {"arm": action["arm"], "loss": 0.3, "slot": action["slot"]}
        assert (await post(settling, f"{path}/feedback", event)).status_code == 200
        again = await post(acting, f"{path}/feedback", event)
        assert (again.status_code, again.json()["code"]) == (409, "surplus_feedback")


@pytest.mark.parametrize("kind", ["exp3", "bold"])
async def test_feedback_without_its_slot_is_told_what_is_missing(kind: str, client: httpx.AsyncClient) -> None:
    path = await create(client, EXP3 | {"kind": kind})
    action = (await post(client, f"{path}/act")).json()

    response = await post(client, f"{path}/feedback", {"arm": action["arm"], "loss": 0.5})

    assert response.status_code == 422
    assert "slot" in response.json()["detail"]
    assert "dexp3" in response.text


async def test_a_slot_that_drew_another_arm_is_refused(client: httpx.AsyncClient) -> None:
    path = await create(client, EXP3)
    action = (await post(client, f"{path}/act")).json()

    response = await post(client, f"{path}/feedback", {"arm": (action["arm"] + 1) % 3, "loss": 0.5, "slot": 1})

    assert response.status_code == 422
    assert "slot 1 drew arm" in response.text
    assert (await client.get(path)).json()["outstanding"] == 1


async def test_slots_beyond_the_bound_are_dropped_and_counted(client: httpx.AsyncClient) -> None:
    path = await create(client, EXP3 | {"max_open_slots": 3})
    actions = (await post(client, f"{path}/acts", {"count": 5})).json()["actions"]
    events = [{"arm": a["arm"], "loss": 0.5, "slot": a["slot"]} for a in actions]

    view = (await client.get(path)).json()
    assert (view["outstanding"], view["expired"]) == (3, 2)
    refused = await post(client, f"{path}/feedbacks", {"events": events})
    assert (refused.status_code, refused.json()["indexes"]) == (409, [0, 1])


async def test_learners_that_need_no_slot_ignore_it(client: httpx.AsyncClient) -> None:
    path = await create(client, {"kind": "centred_tsallis", "n_arms": 3})
    action = (await post(client, f"{path}/act")).json()

    response = await post(client, f"{path}/feedback", {"arm": action["arm"], "loss": 0.5, "slot": 999})

    assert response.json()["applied"] == 1


async def test_a_damaged_record_is_told_and_harms_no_other_session(make_client: Any) -> None:
    store: Any = open_store("memory://")
    client = await make_client(store)
    path, other = await create(client, EXP3), await create(client, EXP3, "other")
    for each in (path, other):
        await post(client, f"{each}/act")
    (key,) = await store.read_records("s")
    store._sessions["s"].records[key] += b"x"
    client = await make_client(store)

    assert (await post(client, f"{path}/act")).json()["code"] == "state_corrupt"
    assert (await post(client, f"{other}/act")).status_code == 200
