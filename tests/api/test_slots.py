"""Acts and feedback over HTTP: as the run in process, in batches, at once, and as people's programs write them."""

import asyncio
import json

import pytest

from service.store.memory import MemoryStore
from service.telemetry.logs import WAITED
from tests.support.asgi import JSON
from tests.support.one_session import view


@pytest.mark.parametrize(
    "request_", [{}, {"content": b"{}"}, {"content": b"{}", "headers": {"content-type": "application/json"}}]
)
async def test_act_needs_no_body(client, create, request_):
    path = await create()

    response = await client.post(f"{path}/act", **request_)

    assert (response.status_code, response.json().keys()) == (200, {"slot", "arm", "probability"})
    assert response.json()["slot"] == 1


async def test_points_are_played_with_their_query_points(client, create):
    ball = {"kind": "ball", "radius": 1.0}
    learner = {"kind": "dbgd", "dim": 2, "feasible_set": ball, "learning_rate": 0.1, "perturbation": 0.25}
    path = await create(learner=learner)

    action = (await client.post(f"{path}/act")).json()
    settlement = await client.post(f"{path}/feedback", json={"losses": [0.0, 0.75, 1.0]})

    assert action == {"slot": 1, "x": [0.0, 0.0], "query_points": [[0.25, 0.0], [0.0, 0.25]]}
    assert settlement.json() == {"applied": 1, "duplicates": 0, "slot": 1, "outstanding": 0}
    assert (await view(client, path))["x"] == pytest.approx([-0.3, -0.4], abs=1e-12)


@pytest.mark.parametrize("count", [1000, 0, 1001, "2", True, 0.5, 1e300])
async def test_counts_have_limits(client, create, count):
    answer = await client.post(f"{await create()}/acts", json={"count": count})

    assert answer.status_code == (200 if count == 1000 else 422)


async def test_many_acts_of_many_arms_are_refused(client, create):
    path = await create(learner={"kind": "dexp3", "n_arms": 10_000})

    assert (await client.post(f"{path}/acts", json={"count": 101})).status_code == 422
    assert (await client.post(f"{path}/acts", json={"count": 100})).status_code == 200


async def test_reading_changes_nothing(client, create):
    path = await create()
    await client.post(f"{path}/act")
    first = await view(client, path)

    assert [await view(client, path) for _ in range(20)] == [first] * 20


@pytest.mark.parametrize(("limit", "sessions"), [({"max_queue": 5}, 1), ({"max_waiting": 5}, 50)])
async def test_more_requests_than_may_wait_are_turned_away(make_client, monkeypatch, limit, sessions):
    commit, gate = MemoryStore.commit, asyncio.Event()

    async def held(store, each):
        await gate.wait()
        return await commit(store, each)

    monkeypatch.setattr(MemoryStore, "commit", held)
    client = await make_client(**limit)
    paths = [f"/v1/sessions/s{number}" for number in range(sessions)]
    for path in paths:
        await client.post("/v1/sessions", json={"session_id": path[13:], "learner": {"kind": "dexp3", "n_arms": 2}})

    acts = [asyncio.create_task(client.post(f"{path}/act")) for path in paths for _ in range(50 // sessions)]
    await asyncio.wait(acts, return_when=asyncio.FIRST_COMPLETED)
    gate.set()
    answers = [await act for act in acts]

    refused = [answer for answer in answers if answer.status_code == 503]
    assert refused
    assert all(answer.json()["code"] == "overloaded" and answer.headers["Retry-After"] == "1" for answer in refused)
    assert sum([(await view(client, path))["slot"] for path in paths]) == len(answers) - len(refused) > 0
    assert (await client.post(f"{paths[0]}/act")).status_code == 200


CALLS = {"act": {}, "acts": {"count": 2}, "feedback": {"arm": 0, "loss": 1}}
CALLS |= {"feedbacks": {"events": [{"arm": 0, "loss": 1}]}}


@pytest.mark.parametrize("call", CALLS)
async def test_a_call_that_has_waited_too_long_for_its_owner_is_not_done(make_client, call):
    client = await make_client(max_wait_seconds=0.4)
    await client.post("/v1/sessions", json={"session_id": "s", "learner": {"kind": "dexp3", "n_arms": 3}})
    scope = {"method": "POST", "path": f"/v1/sessions/s/{call}", "query_string": b"", "headers": JSON}
    carry_out, body = client._transport.app.requests.carry_out, json.dumps(CALLS[call]).encode()
    status, headers, problem = await carry_out(scope | {WAITED: 0.4}, body)
    in_time, *_ = await carry_out(scope | {WAITED: 0.3}, body)

    assert (status, json.loads(problem)["code"]) == (503, "overloaded")
    assert dict(headers)[b"retry-after"] == b"1"
    assert in_time == (409 if "feedback" in call else 200)
    assert (await view(client, "/v1/sessions/s"))["slot"] == {"act": 1, "acts": 2}.get(call, 0)


GOOD = [
    *("a\u00a0b", "\u3000", "\u0645\u06cc\u200c\u062e", "\U0001f468\u200d\U0001f469"),
    *("so\u00adft", "\U0001f1e9\U0001f1ea", "\U0001fadf", "\u200f"),
]


BAD = ["a\tb", "\x7f", "\x85", "\u2028", "\u2029", "\u202d", "x\u202ey", "\ud800"]


async def test_integral_floats_are_integers(client, create):
    await create(session_id="s", learner={"kind": "dexp3", "n_arms": 3.0, "max_outstanding": 100.0}, seed=7.0)
    actions = (await client.post("/v1/sessions/s/acts", json={"count": 2.0})).json()["actions"]

    event = {"arm": float(actions[0]["arm"]), "loss": 1, "slot": 1.0}
    settled = await client.post("/v1/sessions/s/feedback", json=event)

    assert settled.json()["applied"] == 1
    assert (await client.get("/v1/sessions/s")).json()["learner"]["n_arms"] == 3


@pytest.mark.parametrize(
    "learner",
    [
        {"kind": "exp3", "n_arms": 2.0, "learning_rate": 0.1, "max_open_slots": 10.0},
        {"kind": "bold", "n_arms": 2.0, "learning_rate": 1.0, "max_open_slots": 10.0},
        {"kind": "tsallis_delayed", "n_arms": 2.0, "max_open_slots": 10.0},
        {"kind": "clw", "n_arms": 2.0, "horizon": 100.0, "max_delay": 3.0},
        {"kind": "dbgd", "dim": 2.0, "feasible_set": {"kind": "ball", "radius": 1}},
    ],
    ids=lambda learner: learner["kind"],
)
async def test_integral_floats_are_integers_in_every_learner(client, learner):
    answer = await client.post("/v1/sessions", json={"learner": learner})

    assert answer.status_code == 201, answer.text
    view = answer.json()["learner"]
    assert all(isinstance(view[name], int) for name in ("n_arms", "dim", "max_open_slots") if name in learner)


NULLS = [
    {"kind": "centred_tsallis", "n_arms": 2, "tracking": None},
    {"kind": "clw", "n_arms": 2, "horizon": 100, "max_delay": 3, "schedule": None, "base": None},
    {"kind": "exp3", "n_arms": 2, "learning_rate": 0.1, "max_open_slots": None},
    {"kind": "tsallis_delayed", "n_arms": 2, "max_open_slots": None},
    {"kind": "clw_mbco", "dim": 2, "feasible_set": {"kind": "simplex", "total": None}, "max_delay": 3}
    | {"learning_rate": 0.1, "perturbation": 0.1, "schedule": None},
]


@pytest.mark.parametrize("learner", NULLS, ids=lambda learner: learner["kind"])
async def test_null_stands_for_the_default_as_if_the_field_were_left_out(client, learner):
    fields = ("loss_range", "normalize_losses", "floor", "seed", "expiry", "idle_ttl_seconds", "initial")
    body = {"session_id": "s", "learner": learner} | dict.fromkeys([*fields, "reward_range", "decision_log"])
    left_out = _without_nulls(body)

    assert (await client.post("/v1/sessions", json=body)).status_code == 201
    assert (await client.post("/v1/sessions", json=left_out)).status_code == 200


def _without_nulls(value):
    if not isinstance(value, dict):
        return value
    return {name: _without_nulls(field) for name, field in value.items() if field is not None}


async def test_null_stands_for_the_default_in_calls(client, create):
    await create(session_id="s", learner={"kind": "centred_tsallis", "arms": ["a", "b"]})

    drawn = {"count": 2, "distinct": None, "eligible": None, "exclude": None}
    acted = await client.post("/v1/sessions/s/acts", json=drawn)
    body = {"add": ["c"], "remove": None, "pause": None, "resume": None}
    changed = await client.patch("/v1/sessions/s/arms", json=body)

    assert len(acted.json()["actions"]) == 2
    assert changed.json()["learner"]["n_arms"] == 3


async def test_integral_floats_are_indexes_of_eligible_arms(client, create):
    await create(session_id="s", learner={"kind": "centred_tsallis", "n_arms": 3})

    one = await client.post("/v1/sessions/s/act", json={"eligible": [2.0, 2, 7.0]})
    other = await client.post("/v1/sessions/s/act", json={"exclude": [0.0, 1.0]})

    assert one.json() == {"slot": 1, "arm": 2, "probability": 1.0, "skipped": 1}
    assert other.json() == {"slot": 2, "arm": 2, "probability": 1.0}
    for names in ([0.5], [-1.0], [1e300], [0.0, "a"], [True]):
        assert (await client.post("/v1/sessions/s/act", json={"eligible": names})).status_code == 422


async def test_labels_of_any_language_are_taken(client, create):
    await create(session_id="s", learner={"kind": "dexp3", "arms": GOOD})
    action = (await client.post("/v1/sessions/s/act")).json()

    settled = await client.post("/v1/sessions/s/feedback", json={"label": action["label"], "loss": 1})

    assert settled.json()["applied"] == 1


@pytest.mark.parametrize("label", BAD, ids=ascii)
async def test_a_label_that_would_deceive_is_named_with_its_index(client, label):
    body = b'{"learner": {"kind": "dexp3", "arms": ["a", "b", %s]}}' % ascii_json(label)
    response = await client.post("/v1/sessions", content=body, headers={"Content-Type": "application/json"})

    assert (response.status_code, response.json()["errors"][0]["field"]) == (422, "learner.arms.2")
    shown = "\ufffd" if label == "\ud800" else label  # which is no Unicode, and is not repeated
    assert ascii(shown)[1:-1] in response.json()["errors"][0]["message"]


@pytest.mark.parametrize(
    ("labels", "field", "says"),
    [
        (["a", "é" * 64, "é" * 65], "learner.arms.2", r"128 bytes, and not 130: '\xe9\xe9"),
        (["a", "b", "a"], "learner.arms", "'a' is there 2 times"),
    ],
)
async def test_a_label_that_is_too_long_or_there_twice_is_named(client, labels, field, says):
    response = await client.post("/v1/sessions", json={"learner": {"kind": "dexp3", "arms": labels}})

    assert (response.status_code, response.json()["errors"][0]["field"]) == (422, field)
    assert says in response.json()["errors"][0]["message"]


async def test_a_new_label_that_is_too_long_is_named_with_its_index(client):
    await client.post("/v1/sessions", json={"session_id": "s", "learner": {"kind": "dexp3", "arms": ["a"]}})
    added = await client.patch("/v1/sessions/s/arms", json={"add": ["b", "c" * 129]})
    put = await client.put("/v1/sessions/s/arms", json={"arms": ["b" * 129]})

    assert [each.json()["errors"][0]["field"] for each in (added, put)] == ["add.1", "arms.0"]


def ascii_json(label):
    return b'"' + "".join(f"\\u{ord(each):04x}" for each in label).encode() + b'"'
