"""Every learner over HTTP: its own kind of feedback, the numbers it has in process, and how it begins."""

import json

import numpy as np
import pytest

from service.engine.ledger import ArmAction, ArmFeedback, PointFeedback
from service.learners import REGISTRY
from service.learners.base import Information, InitialArm
from service.learners.centred_tsallis import CentredTsallisSpec
from service.learners.multiscale_tsallis import MultiscaleTsallisSpec
from service.store import open_store
from tests.support import vectors
from tests.support.one_session import PATH, acts, answered, session, view
from tests.support.runs import start
from tests.support.vectors import over_arms, with_eligible_arms

BOX = {"kind": "box", "lower": [-1.0, -1.0], "upper": [2.0, 1.0]}
RANDOM_POINTS = {"kind": "clw_mbco", "dim": 2, "feasible_set": BOX, "max_delay": 1, "learning_rate": 0.05}
RANDOM_POINTS |= {"perturbation": 0.1, "schedule": "random"}


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


async def create(client, spec, name="s"):
    body = {"session_id": name, "learner": spec, "seed": 11}
    await answered(client, "POST", "/v1/sessions", 201, json=body)
    return f"/v1/sessions/{name}"


def event_for(run, action, rng):
    """One decision's feedback, for the run in process and as it is posted."""
    if isinstance(action, ArmAction):
        loss = float(rng.random())
        return ArmFeedback(action.arm, loss, action.slot), {"arm": action.arm, "loss": loss, "slot": action.slot}
    gradient = run.learner.information is Information.GRADIENT
    values = rng.normal(size=action.x.size + (not gradient))
    return PointFeedback(values), {"gradient" if gradient else "losses": values.tolist()}


@pytest.mark.parametrize("spec", SPECS)
async def test_a_session_gives_the_numbers_of_its_twin_in_process(spec, store, make_client):
    """Delays up to 4; the service is started anew on the same store twice."""
    client = await make_client(store)
    path = await create(client, spec)
    twin = start(spec, seed=11)
    rng, waiting = np.random.default_rng(3), []

    for t in range(40):
        if t % 14 == 13:
            client = await make_client(store)
        body = (await client.post(f"{path}/act")).json()
        action = twin.act()
        assert body["slot"] == action.slot
        if isinstance(action, ArmAction):
            assert (body["arm"], body["probability"]) == (action.arm, action.probability)
        else:
            assert body["x"] == action.x.tolist()
            points = action.query_points
            assert body.get("query_points") == (None if points is None else points.tolist())
        waiting.append(event_for(twin, action, rng))
        while len(waiting) > t % 5:
            event, posted = waiting.pop(int(rng.integers(len(waiting))))
            if twin.surplus([event]):
                continue
            response = await client.post(f"{path}/feedback", json=posted)
            assert response.status_code == 200, response.text
            twin.settle(event)

    view = (await client.get(path)).json()
    assert (view["outstanding"], view["expired"]) == (twin.ledger.outstanding, twin.ledger.expired)
    if "probabilities" in view:
        assert view["probabilities"] == twin.probabilities.tolist()


async def test_open_slots_outlive_the_service_on_every_store(store, make_client):
    client = await make_client(store)
    path = await create(client, EXP3)
    actions = (await client.post(f"{path}/acts", json={"count": 30})).json()["actions"]
    settled = [{"arm": a["arm"], "loss": 0.5, "slot": a["slot"]} for a in actions]
    assert (await client.post(f"{path}/feedbacks", json={"events": settled[:20]})).status_code == 200

    client = await make_client(store)

    refused = await client.post(f"{path}/feedbacks", json={"events": settled[18:22]})
    assert (refused.status_code, refused.json()["indexes"]) == (409, [0, 1])
    assert (await client.post(f"{path}/feedbacks", json={"events": settled[20:]})).json()["outstanding"] == 0
    await client.delete(path)
    assert await store.read_records("s") == {}


async def test_two_workers_share_the_open_slots(make_client):
    store = open_store("memory://")
    one, two = await make_client(store), await make_client(store)
    path = await create(one, EXP3)

    for turn in range(20):
        acting, settling = (one, two) if turn % 2 else (two, one)
        action = (await acting.post(f"{path}/act")).json()
        event = {"arm": action["arm"], "loss": 0.3, "slot": action["slot"]}
        assert (await settling.post(f"{path}/feedback", json=event)).status_code == 200
        again = await acting.post(f"{path}/feedback", json=event)
        assert (again.status_code, again.json()["code"]) == (409, "surplus_feedback")


@pytest.mark.parametrize("kind", ["exp3", "bold"])
async def test_feedback_without_its_slot_is_told_what_is_missing(kind, client):
    path = await create(client, EXP3 | {"kind": kind})
    action = (await client.post(f"{path}/act")).json()

    response = await client.post(f"{path}/feedback", json={"arm": action["arm"], "loss": 0.5})

    assert response.status_code == 422
    assert "slot" in response.json()["detail"]
    assert "dexp3" in response.text


async def test_a_slot_that_drew_another_arm_is_refused(client):
    path = await create(client, EXP3)
    action = (await client.post(f"{path}/act")).json()

    response = await client.post(f"{path}/feedback", json={"arm": (action["arm"] + 1) % 3, "loss": 0.5, "slot": 1})

    assert response.status_code == 422
    assert "slot 1 drew arm" in response.text
    assert (await client.get(path)).json()["outstanding"] == 1


@pytest.mark.parametrize("kind", ["exp3", "bold"])
async def test_slots_beyond_the_bound_are_dropped_and_counted(client, kind):
    path = await create(client, EXP3 | {"kind": kind, "max_open_slots": 3})
    actions = (await client.post(f"{path}/acts", json={"count": 5})).json()["actions"]
    events = [{"arm": a["arm"], "loss": 0.5, "slot": a["slot"]} for a in actions]

    view = (await client.get(path)).json()
    assert (view["outstanding"], view["expired"]) == (3, 2)
    refused = await client.post(f"{path}/feedbacks", json={"events": events})
    assert (refused.status_code, refused.json()["indexes"]) == (409, [0, 1])


async def test_learners_that_need_no_slot_ignore_it(client):
    path = await create(client, {"kind": "centred_tsallis", "n_arms": 3})
    action = (await client.post(f"{path}/act")).json()

    response = await client.post(f"{path}/feedback", json={"arm": action["arm"], "loss": 0.5, "slot": 999})

    assert response.json()["applied"] == 1


async def test_a_damaged_record_is_told_and_harms_no_other_session(make_client):
    store = open_store("memory://")
    client = await make_client(store)
    path, other = await create(client, EXP3), await create(client, EXP3, "other")
    for each in (path, other):
        await client.post(f"{each}/act")
    (key,) = await store.read_records("s")
    store._sessions["s"].records[key] += b"x"
    client = await make_client(store)

    assert (await client.post(f"{path}/act")).json()["code"] == "state_corrupt"
    assert (await client.post(f"{other}/act")).status_code == 200


LOG = {"decision_log": {"max_entries": 10_000}}


FIVE = ["a", "b", 'quote "', "ü", "e"]


BATCHED = {
    **{kind: {"learner": {"kind": kind, "n_arms": 5} | fields} for kind, fields in over_arms().items()},
    "labels": {"learner": {"kind": "dexp3", "arms": FIVE}},
    "floor": {"learner": {"kind": "fixed", "arms": FIVE}, "floor": 0.1},
    "expiry": {"learner": {"kind": "dexp3", "n_arms": 5}, "expiry": {"after_seconds": 3600, "default_loss": None}},
    "provisional": {
        "learner": {"kind": "multiscale_tsallis", "n_arms": 5},
        "expiry": {"after_seconds": 3600, "default_loss": 1.0},
    },
    "open slots": {"learner": {"kind": "exp3", "n_arms": 5, "learning_rate": 0.1, "max_open_slots": 40}},
    "segments": {"learner": {"kind": "centred_tsallis", "n_arms": 5}, "segments": {"max": 3}},
}


TAKE_ELIGIBLE = with_eligible_arms()


CASES = [(name, {}) for name in BATCHED] + [
    (name, body)
    for name, fields in BATCHED.items()
    if fields["learner"]["kind"] in TAKE_ELIGIBLE
    for body in ({"eligible": [0, 2, 9]}, {"exclude": [1]})
]


async def decisions(client, path):
    page = (await client.get(f"{path}/decisions", params={"limit": 1000})).json()["decisions"]
    return [{name: value for name, value in each.items() if name not in ("at", "session_id")} for each in page]


def event_of(action, kind):
    event = {"arm": action["arm"], "loss": action["slot"] * 37 % 100 / 99, "event_id": f"e-{action['slot']}"}
    takes_slot = REGISTRY[kind].model_validate(BATCHED[kind]["learner"]).build().information == "slot"
    return event | ({"slot": action["slot"]} if takes_slot else {})


@pytest.mark.parametrize(("name", "body"), CASES)
async def test_together_is_one_by_one(client, create, name, body):
    kind = BATCHED[name]["learner"]["kind"]
    one, many = [await create(**BATCHED[name], **LOG) for _ in range(2)]
    for count in (70, 1, 9):
        singles = [(await client.post(f"{one}/act", json=body)).content for _ in range(count)]
        skipped = b',"skipped":1' if "eligible" in body else b""
        singles = [each.removesuffix(skipped + b"}") + b"}" for each in singles]

        batch = (await client.post(f"{many}/acts", json={"count": count, **body})).content

        assert batch == b'{"actions":[%b]%b}' % (b",".join(singles), skipped)
        events = [event_of(action, kind) for action in json.loads(batch)["actions"][-40::2]]
        settled = [(await client.post(f"{one}/feedback", json=event)).json() for event in events]
        together = (await client.post(f"{many}/feedbacks", json={"events": events})).json()
        assert together == settled[-1] | {"applied": len(events)}
    assert await decisions(client, one) == await decisions(client, many)
    arms = [(await client.get(f"{path}/arms")).json()["arms"] for path in (one, many)]
    assert arms[0] == arms[1]
    assert [sum(arm[count] for arm in arms[0]) for count in ("acts", "feedbacks")] == [80, 26]
    views = [(await client.get(path)).json() for path in (one, many)]
    for field in ("probabilities", "mean_loss", "outstanding", "total_delay"):
        assert views[0][field] == views[1][field]


GIVEN = {"a": 0.5, "b": 0.25, "c": 0.25, "d": 0}


async def create_fixed(client, learner, **fields):
    body = {"session_id": "s", "learner": {"kind": "fixed"} | learner, "seed": 7} | fields
    return await client.post("/v1/sessions", json=body)


async def test_losses_are_counted_and_not_learned(client):
    await session(client, kind="fixed", learner={"probabilities": GIVEN})
    actions = (await acts(client, count=40))["actions"]
    events = [{"label": action["label"], "loss": 1.0 if action["arm"] else 0.0} for action in actions[:30]]

    await client.post(f"{PATH}/feedbacks", json={"events": events})
    seen = await view(client)

    assert {action["probability"] for action in actions} == {0.5, 0.25}
    assert {action["label"] for action in actions} == {"a", "b", "c"}
    assert seen["probabilities"] == list(GIVEN.values())
    assert seen["learner"]["probabilities"] == list(GIVEN.values())
    assert (seen["slot"], seen["feedbacks"], seen["outstanding"]) == (40, 30, 10)
    assert seen["mean_loss"] == pytest.approx(sum(event["loss"] for event in events) / 30)


async def test_arms_come_and_go(client):
    await session(client, kind="fixed", learner={"probabilities": GIVEN})

    added = (await client.patch(f"{PATH}/arms", json={"add": ["x"]})).json()
    removed = (await client.patch(f"{PATH}/arms", json={"remove": ["a", "b", "c", "x"]})).json()

    assert added["probabilities"] == pytest.approx([0.4, 0.2, 0.2, 0, 0.2])
    assert (removed["learner"]["arms"], removed["probabilities"]) == (["d"], [1])


async def test_the_same_probabilities_are_the_same_session_however_they_are_given(client):
    arms = {"arms": list(GIVEN)}

    by_label = await create_fixed(client, arms | {"probabilities": GIVEN})
    by_position = await create_fixed(client, arms | {"probabilities": list(GIVEN.values())})
    uniform = await create_fixed(client, arms)

    assert [answer.status_code for answer in (by_label, by_position, uniform)] == [201, 200, 409]
    assert by_label.json() == by_position.json()


@pytest.mark.parametrize(
    ("learner", "field"),
    [
        *(
            ({"probabilities": GIVEN | more}, "learner.probabilities")
            for more in ({"e": 0}, {"d": 0.1}, {"d": 2e-9})
        ),
        *(({"probabilities": GIVEN | {"a": odd}}, "learner.probabilities") for odd in ("0.5", True)),
        *(({"probabilities": each}, "learner.probabilities") for each in ({"a": 1}, [0.5, 0.5], [], "a")),
        ({"probabilities": {"a": 0.5, "b": 0.25, "c": 0.25, "x": 0}}, "learner.probabilities"),
        ({"probabilities": {"a": 1.5, "b": -0.5, "c": 0, "d": 0}}, "learner.probabilities"),
        ({"probabilities": [0.5, 0.5, "0", 0]}, "learner.probabilities.2"),
        ({"probabilities": [1.5, -0.5, 0, 0]}, "learner.probabilities.0"),
        ({"learning_rate": 0.1}, "learner.learning_rate"),
    ],
)
async def test_what_is_no_distribution_over_the_arms_is_refused(client, learner, field):
    answer = await create_fixed(client, {"arms": list(GIVEN)} | learner)

    assert answer.status_code == 422
    assert [error["field"] for error in answer.json()["errors"]] == [field]


async def test_labels_need_arms_with_labels_and_a_sum_may_be_rounded(client):
    by_label = await create_fixed(client, {"n_arms": 2, "probabilities": {"0": 0.5, "1": 0.5}})
    rounded = await create_fixed(client, {"n_arms": 3, "probabilities": [0.3333333333, 0.3333333333, 0.3333333333]})

    assert (by_label.status_code, rounded.status_code) == (422, 201)


async def test_as_many_probabilities_as_arms_may_be_named(client):
    """Other objects of a body have few fields."""
    labels = [f"item-{n}" for n in range(1000)]
    spread = dict.fromkeys(labels, 1 / 1000)

    answer = await create_fixed(client, {"arms": labels, "probabilities": spread})
    other_place = await client.post(f"{PATH}/feedback", json={"arm": 0, "loss": 0, "probabilities": spread})
    wrong = await create_fixed(client, {"arms": labels, "probabilities": dict.fromkeys(labels, "x")})

    assert answer.status_code == 201
    assert other_place.json()["detail"] == "An object has more than 100 fields"
    assert len(wrong.json()["errors"]) == 1
    assert (await acts(client, count=2, distinct=True))["actions"][0]["probability"] == pytest.approx(1 / 1000)


WARM = {"kind": "centred_tsallis", "arms": ["a", "b", "c", "d"]}


INITIAL = [{"label": "b", "acts": 30, "mean_loss": 0.2}, {"arm": 0, "acts": 10, "mean_loss": 0.6}]


WARM_ARMS = [InitialArm(1, 30, 0.2), InitialArm(0, 10, 0.6)]


def test_the_state_is_that_of_the_formulas_by_hand():
    """N = 40, b = (6 + 6)/40 = 0.3, N/K = 10; S before its least: 40 (.3) 10/20 = 6, 40 (-.1) 30/40 = -3, 0, 0."""
    learner = CentredTsallisSpec(n_arms=4).build()
    state = learner.warmed(learner.start(), WARM_ARMS)

    assert (state.t, state.events) == (40, 40)
    assert (state.mean, state.variance_sum, state.variance_max) == pytest.approx((0.3, 8.4, 0.49))
    np.testing.assert_allclose(state.sums, [9, 0, 3, 3])


def test_experts_with_a_short_memory_remember_so_many_acts():
    learner = MultiscaleTsallisSpec(n_arms=4).build()
    state = learner.warmed(learner.start(), [InitialArm(1, 3000, 0.2), InitialArm(0, 1000, 0.6)])

    assert state.deviation_sum == pytest.approx(2 * 4000 * 0.3 * 0.7)
    for sums, memory in zip(state.sums[:4], (4000, 4000, 1000, 4000), strict=True):
        np.testing.assert_allclose(sums, np.array([9, 0, 3, 3]) * memory / 40)
    counts = np.array([[1000, 3000, 0, 0], [500, 1500, 0, 0]])
    np.testing.assert_allclose(state.sums[4:], [*counts, *counts * [0.6, 0.2, 0, 0]])


@pytest.mark.parametrize("kind", ["centred_tsallis", "multiscale_tsallis"])
async def test_the_first_act_knows_and_no_count_does(client, kind):
    body = {"session_id": "s", "learner": WARM | {"kind": kind}, "seed": 1, "initial": INITIAL}
    assert (await client.post("/v1/sessions", json=body)).status_code == 201
    await client.post("/v1/sessions/s/act")
    view = (await client.get("/v1/sessions/s")).json()

    assert (np.argmax(view["probabilities"]), np.argmin(view["probabilities"])) == (1, 0)
    assert (view["slot"], view["feedbacks"], view["mean_loss"]) == (1, 0, None)
    assert (await client.post("/v1/sessions", json=body)).status_code == 200
    assert (await client.post("/v1/sessions", json=body | {"initial": None})).status_code == 409


async def test_rewards_begin_with_mean_rewards(client):
    initial = [{"arm": 1, "acts": 30, "mean_reward": 0.8}, {"arm": 0, "acts": 10, "mean_reward": 0.4}]
    for name, fields in (("r", {"reward_range": [0, 1], "initial": initial}), ("l", {"initial": INITIAL})):
        body = {"session_id": name, "learner": WARM, "seed": 1} | fields
        assert (await client.post("/v1/sessions", json=body)).status_code == 201
    actions = [(await client.post(f"/v1/sessions/{name}/act")).json() for name in "rl"]

    assert actions[0]["probability"] == pytest.approx(actions[1]["probability"])


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"initial": [INITIAL[0], {"arm": 1, "acts": 1, "mean_loss": 0}]}, "each arm once"),
        ({"initial": [{"arm": 1, "acts": 0, "mean_loss": 0}]}, "acts"),
        ({"initial": [{"arm": 1, "acts": 1, "mean_reward": 0}]}, "mean_loss"),
        ({"initial": [{"arm": 1, "acts": 1}]}, "mean_loss"),
        ({"initial": [{"arm": 4, "acts": 1, "mean_loss": 0}]}, "no such arm"),
        ({"initial": [{"label": "x", "acts": 1, "mean_loss": 0}]}, "no such arm"),
        ({"initial": [{"arm": 1, "label": "b", "acts": 1, "mean_loss": 0}]}, "either arm or label"),
        ({"initial": [{"arm": 1, "acts": 1, "mean_loss": 2}]}, "loss must lie"),
        ({"initial": [{"arm": k, "acts": 6e8, "mean_loss": 0} for k in (0, 1)]}, "1000000000 acts"),
        ({"initial": []}, "initial"),
        ({"initial": INITIAL, "normalize_losses": False}, "normalize_losses"),
        ({"initial": INITIAL, "learner": {"kind": "dexp3", "arms": ["a", "b"]}}, "Tsallis"),
    ],
)
async def test_what_does_not_fit_is_refused(client, fields, named):
    response = await client.post("/v1/sessions", json={"learner": WARM} | fields)

    assert response.status_code == 422
    assert named in response.json()["detail"]
