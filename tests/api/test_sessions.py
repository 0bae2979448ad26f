"""Create, view and delete sessions; those that make no sense, and those that are created again."""

import asyncio
import re
from itertools import count

import pytest

from service.store.memory import MemoryStore
from tests.support.bodies import ARMS, BALL


async def test_a_view_shows_the_session_as_resolved_and_never_its_seed(client):
    response = await client.post("/v1/sessions", json={"session_id": "s1", "learner": ARMS, "seed": 5})

    assert response.status_code == 201
    view = response.json()
    assert (view["session_id"], view["learner"]["kind"], view["learner"]["n_arms"]) == ("s1", "dexp3", 4)
    assert (view["learner"]["rates"], view["loss_range"]) == ("anytime", [0, 1])
    assert view["normalize_losses"] is True
    assert view["probabilities"] == [0.25] * 4
    assert {view[name] for name in ("slot", "feedbacks", "outstanding", "total_delay", "expired", "removed")} == {0}
    assert view["expires_at"] is None
    assert view["expiry"] is None
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", view["created_at"])
    assert "seed" not in response.text
    assert (await client.get("/v1/sessions/s1")).json() == view


async def test_a_session_begins_anew_after_one_like_it_has_learned(client):
    views = []
    for name in ("s1", "s2"):
        views.append((await client.post("/v1/sessions", json={"session_id": name, "learner": ARMS})).json())
        arm = (await client.post(f"/v1/sessions/{name}/act")).json()["arm"]
        await client.post(f"/v1/sessions/{name}/feedback", json={"arm": arm, "loss": 1.0})

    for view in views:
        for name in ("session_id", "version", "created_at"):
            del view[name]
    assert views[0] == views[1]
    assert (await client.get("/v1/sessions/s1")).json()["probabilities"] != [0.25] * 4


async def test_the_theorems_rates_are_shown_as_resolved(client):
    learner = ARMS | {"horizon": 2000, "max_delay": 3, "total_delay": 2569, "n_arms": 5}

    view = (await client.post("/v1/sessions", json={"learner": learner})).json()["learner"]

    assert view["rates"] == "theorem"
    assert view["learning_rate"] == pytest.approx(0.006170456221683922, rel=1e-12)
    assert view["loss_clip"] == pytest.approx(26.974958481843924, rel=1e-12)
    assert view["probability_floor"] == pytest.approx(1 / 4569, rel=1e-12)


async def test_a_deleted_session_is_gone_everywhere(client):
    await client.post("/v1/sessions", json={"session_id": "s", "learner": ARMS})
    version = (await client.get("/v1/sessions/s")).json()["version"]

    assert (await client.delete("/v1/sessions/s")).status_code == 204
    for method, path, body in [
        ("GET", "", None),
        ("DELETE", "", None),
        ("POST", "/act", None),
        ("POST", "/acts", {"count": 2}),
        ("POST", "/feedback", {"arm": 0, "loss": 0.5}),
        ("POST", "/feedbacks", {"events": [{"arm": 0, "loss": 0.5}]}),
    ]:
        response = await client.request(method, f"/v1/sessions/s{path}", json=body)
        assert (response.status_code, response.json()["code"]) == (404, "unknown_session")
    again = await client.post("/v1/sessions", json={"session_id": "s", "learner": ARMS})
    assert again.json()["version"] != version


@pytest.mark.parametrize("name", ["%00", "%0a", "-x", "x" * 300])
async def test_paths_with_impossible_ids_know_no_session(client, name):
    response = await client.get(f"/v1/sessions/{name}")

    assert (response.status_code, response.json()["code"]) == (404, "unknown_session")


async def test_large_counts_are_read_back_digit_for_digit(client):
    learner = ARMS | {"horizon": 2**53 - 1, "max_delay": 2, "total_delay": 2**53 - 1}

    view = (await client.post("/v1/sessions", json={"learner": learner, "seed": 2**63 - 1})).json()

    assert view["learner"]["horizon"] == 2**53 - 1


@pytest.mark.parametrize(
    "session_id",
    ["", " s", "s ", "-s", "caf\u00e9", "a/b", "s\n", "s\u0000", "\u202es", "x" * 129, "\U0001f600", 5, True],
)
async def test_ids_outside_the_pattern_are_refused(client, session_id):
    response = await client.post("/v1/sessions", json={"session_id": session_id, "learner": ARMS})

    assert (response.status_code, response.json()["code"]) == (422, "invalid_request")
    assert response.json()["errors"][0]["field"] == "session_id"


GIVEN = {"learning_rate": 0.1, "loss_clip": 1, "probability_floor": 0.1}


@pytest.mark.parametrize(
    ("learner", "field"),
    [
        ({"kind": "dexp3"}, "learner"),
        *(({"kind": "dexp3", "n_arms": n_arms}, "n_arms") for n_arms in (0, -3, 100_001, 10**30, "3", True, 3.5)),
        *(({"kind": "dexp3", "arms": arms}, "arms") for arms in ([], ["1", 1], ["x" * 129])),
        *(({"kind": "dexp3", "arms": arms}, "learner") for arms in (["a", "a"], ["a\u0000"])),
        *((ARMS | more, "learner") for more in ({"arms": ["a"]}, {"learning_rate": 0.1}, {"horizon": 100})),
        (ARMS | {"gama": 0.5}, "gama"),
        ({"kind": "dexp3", "n_arms": 3, "horizon": 0, "max_delay": 1, "total_delay": 1}, "horizon"),
        ({"kind": "dexp3", "n_arms": 3, "horizon": 2, "max_delay": 3, "total_delay": 4}, "learner"),
        *((ARMS | GIVEN | {"learning_rate": rate}, "learning_rate") for rate in (0, -1, 1e308)),
        (ARMS | GIVEN | {"probability_floor": 1.5}, "probability_floor"),
        (BALL | {"dim": 1001}, "dim"),
        (BALL | {"feasible_set": {"kind": "ball", "radius": 0}}, "radius"),
        (BALL | {"learning_rate": 0.1, "perturbation": 1.0}, "learner"),
        ({"kind": "nonsense", "n_arms": 3}, "learner"),
        (5, "learner"),
    ],
)
async def test_learners_that_make_no_sense_are_refused_with_the_field(client, learner, field):
    response = await client.post("/v1/sessions", json={"learner": learner})

    body = response.json()
    assert (response.status_code, body["code"]) == (422, "invalid_request")
    assert field in " ".join(error["field"] for error in body["errors"]) + body["detail"]


@pytest.mark.parametrize(
    "fields",
    [
        *({"loss_range": given} for given in ([0, 0], [0], [0, 1, 2], ["0", 1], [-1.7e308, 1.7e308])),
        *({"seed": seed} for seed in (-1, 2**63, 1.5)),
        *({"idle_ttl_seconds": 0}, {"normalize_losses": 1}, {"unknown": 1}),
    ],
)
async def test_session_fields_that_make_no_sense_are_refused(client, fields):
    response = await client.post("/v1/sessions", json={"learner": ARMS} | fields)

    assert (response.status_code, response.json()["code"]) == (422, "invalid_request")


THEOREM = {"kind": "dexp3", "n_arms": 3, "horizon": 100, "max_delay": 1, "total_delay": 9}


UNIT = {"kind": "ball", "radius": 1.0}


POINTS = {"kind": "dbgd", "dim": 2, "feasible_set": UNIT}


DEFAULTS = [
    (THEOREM, THEOREM | {"rate_scale": 1}),
    (POINTS, POINTS | {"feasible_set": UNIT | {"center": [0, 0]}}),
    (POINTS, POINTS | {"perturbation": 0.001}),
    ({"kind": "exp3", "n_arms": 2, "learning_rate": 1}, {"kind": "exp3", "n_arms": 2, "learning_rate": 1.0}),
]


SHOWN = {
    "dexp3": {"rate_scale": 1.0},
    "dbgd": {"feasible_set": UNIT | {"center": [0.0, 0.0]}, "perturbation": 0.001},
    "exp3": {"learning_rate": 1.0, "rate_scale": None},
}


@pytest.mark.parametrize(("short", "long"), [*DEFAULTS, *(pair[::-1] for pair in DEFAULTS)])
async def test_a_default_is_the_same_written_or_left_out(client, short, long):
    created = await client.post("/v1/sessions", json={"session_id": "s", "learner": short})
    again = await client.post("/v1/sessions", json={"session_id": "s", "learner": long})

    assert (created.status_code, again.status_code) == (201, 200)
    assert again.json() == created.json()
    assert created.json()["learner"].items() >= SHOWN[short["kind"]].items()


AGAIN = {"learner": {"kind": "multiscale_tsallis", "arms": ["a", "b", "c"]}, "seed": 5}
GOALS, AGE = {"a": 0.0, "b": 1.0}, {"kind": "number", "range": [0, 100]}
FEATURES = {"features": {"age": AGE, "member": {"kind": "boolean"}}}


@pytest.mark.parametrize(
    ("fields", "others", "differing"),
    [
        ({}, {"loss_range": [0, 1.0], "normalize_losses": True, "floor": 0, "seed": None}, []),
        *(({}, other, [*other]) for other in ({"seed": 6}, {"loss_range": [1, 0]}, {"normalize_losses": False})),
        *(({}, other, [*other]) for other in ({"idle_ttl_seconds": 60.0}, {"floor": 0.1}, {"learner": BALL})),
        ({"goals": GOALS}, {"goals": dict(reversed(GOALS.items()))}, []),
        ({"goals": GOALS}, {"goals": None}, ["goals"]),
        ({"updates": {"within_seconds": 9}}, {"updates": {"within_seconds": 8}}, ["updates"]),
        ({"segments": {"max": 3}}, {}, []),
        ({"segments": {"max": 3}}, {"segments": {"max": 4}}, ["segments"]),
        (FEATURES, {"features": dict(reversed(FEATURES["features"].items()))}, []),
        (FEATURES, {"features": {"age": AGE}}, ["features"]),
        ({"decision_log": {"max_entries": 9}}, {"decision_log": None}, ["decision_log"]),
    ],
)
async def test_a_session_posted_again_is_found_or_what_differs_is_named(client, fields, others, differing):
    body = {"session_id": "s"} | AGAIN | fields
    first, again = [await client.post("/v1/sessions", json=each) for each in (body, body | others)]

    assert (first.status_code, again.status_code) == (201, 409 if differing else 200), again.text
    if differing:
        assert again.json()["code"] == "session_exists"
        assert [each["field"] for each in again.json()["errors"]] == differing
    else:
        assert again.json() == first.json()


async def test_a_key_keeps_the_view_of_a_session_that_was_there(client):
    body = {"session_id": "s", "learner": ARMS, "idle_ttl_seconds": 3600}
    key = {"Idempotency-Key": "again"}
    await client.post("/v1/sessions", json=body)

    first = await client.post("/v1/sessions", json=body, headers=key)
    await client.post("/v1/sessions/s/act")
    again = await client.post("/v1/sessions", json=body, headers=key)
    other = await client.post("/v1/sessions", json=body | {"normalize_losses": False}, headers=key)

    assert (first.status_code, again.status_code, other.status_code) == (200, 200, 422)
    assert "Idempotent-Replayed" not in first.headers
    assert (again.headers["Idempotent-Replayed"], again.content) == ("true", first.content)
    assert other.json()["code"] == "idempotency_conflict"
    assert (await client.get("/v1/sessions/s")).json()["slot"] == 1


async def test_finding_a_session_changes_nothing_of_it_but_the_version(make_client):
    client = await make_client(MemoryStore(clock=count(1_800_000_000).__next__))
    body = {"session_id": "s", "learner": ARMS, "idle_ttl_seconds": 3600}
    created = (await client.post("/v1/sessions", json=body)).json()

    found = (await client.post("/v1/sessions", json=body, headers={"Idempotency-Key": "again"})).json()

    assert found | {"version": None} == created | {"version": None}
    assert (await client.get("/v1/sessions/s")).json() == found


class Vanishing(MemoryStore):
    """A store in which somebody deletes every session before it can be read."""

    async def load(self, session_id, *arms):
        await self.delete(session_id)
        return await super().load(session_id)


async def test_a_creation_that_took_is_told_though_the_session_is_gone_again(make_client):
    client = await make_client(Vanishing())
    body = {"session_id": "s", "learner": ARMS, "idle_ttl_seconds": 60}

    first = await client.post("/v1/sessions", json=body)
    again = await client.post("/v1/sessions", json=body)

    assert (first.status_code, again.status_code) == (201, 201)
    assert first.json()["version"] != again.json()["version"]
    assert first.json()["probabilities"] == [0.25] * 4
    assert (await client.get("/v1/sessions/s")).status_code == 404


async def test_a_session_found_and_gone_before_it_is_shown_is_made(make_client):
    store = MemoryStore()
    client, other = await make_client(store), await make_client(store)
    body = {"session_id": "s", "learner": ARMS}

    async def churn():
        return [(await other.delete("/v1/sessions/s")).status_code for _ in range(60)]

    deleting = asyncio.create_task(churn())
    created = [(await client.post("/v1/sessions", json=body)).status_code for _ in range(60)]

    assert set(created) <= {200, 201}
    assert set(await deleting) <= {204, 404}


RATE = {"learning_rate": 0.1}


@pytest.mark.parametrize(("n_arms", "slots"), [(3, 1000), (1000, 1000), (1001, 999), (10_000, 100), (100_000, 10)])
async def test_a_pool_is_as_large_as_its_arms_allow(client, create, n_arms, slots):
    path = await create(learner=RATE | {"kind": "bold", "n_arms": n_arms})

    assert (await client.get(path)).json()["learner"]["max_open_slots"] == slots
    for _ in range(2):
        assert (await client.post(f"{path}/acts", json={"count": 8})).status_code == 200
    assert (await client.get(path)).json()["outstanding"] == min(16, slots)


@pytest.mark.parametrize(
    "learner",
    [
        {"kind": "bold", "n_arms": 100_000, "max_open_slots": 11},
        {"kind": "bold", "n_arms": 20, "max_open_slots": 50_001},
        {"kind": "bold", "n_arms": 1, "max_open_slots": 10**12},
        {"kind": "bold", "arms": [f"arm {n}" for n in range(40)], "max_open_slots": 25_001},
        {"kind": "exp3", "n_arms": 2, "max_open_slots": 50_001},
    ],
)
async def test_more_than_can_be_read_in_a_moment_is_refused(client, learner):
    answer = await client.post("/v1/sessions", json={"learner": learner | RATE})

    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")
    assert answer.json()["errors"][0]["field"] == "learner.max_open_slots"


@pytest.mark.parametrize(
    "learner",
    [
        {"kind": "bold", "n_arms": 20, "max_open_slots": 50_000},
        {"kind": "exp3", "n_arms": 100_000, "max_open_slots": 50_000},
    ],
)
async def test_as_much_as_allowed_is_taken(create, learner):
    assert await create(learner=learner | RATE)


async def test_arms_that_are_added_must_leave_room_for_the_pool(client, create):
    arms = [f"arm {n}" for n in range(39)]
    path = await create(learner=RATE | {"kind": "bold", "arms": arms, "max_open_slots": 25_000})

    assert (await client.patch(f"{path}/arms", json={"add": ["d"]})).status_code == 200
    refused = await client.patch(f"{path}/arms", json={"add": ["e"]})
    assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, "add")
    assert (await client.patch(f"{path}/arms", json={"remove": ["d"], "add": ["e"]})).status_code == 200
