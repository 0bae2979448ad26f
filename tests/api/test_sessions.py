"""Create, view and delete sessions."""

import re

import pytest

from tests.support.bodies import ARMS


async def test_a_view_shows_the_session_as_resolved_and_never_its_seed(client):
    response = await client.post("/v1/sessions", json={"session_id": "s1", "learner": ARMS, "seed": 5})

    assert response.status_code == 201
    view = response.json()
    assert view["session_id"] == "s1"
    assert view["learner"]["kind"] == "dexp3"
    assert view["learner"]["n_arms"] == 4
    assert view["learner"]["rates"] == "anytime"
    assert view["loss_range"] == [0, 1]
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


async def test_given_rates_are_used_as_given(client):
    rates = {"learning_rate": 0.2, "loss_clip": 3.0, "probability_floor": 0.05}

    view = (await client.post("/v1/sessions", json={"learner": ARMS | rates})).json()["learner"]

    assert view["rates"] == "given"
    assert rates.items() <= view.items()


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


async def test_ids_that_differ_in_case_differ(client):
    for session_id in ("s1", "S1"):
        response = await client.post("/v1/sessions", json={"session_id": session_id, "learner": ARMS})
        assert response.status_code == 201


@pytest.mark.parametrize(
    "path", ["/v1/sessions/%00", "/v1/sessions/%0a", "/v1/sessions/-x", "/v1/sessions/" + "x" * 300]
)
async def test_paths_with_impossible_ids_know_no_session(client, path):
    response = await client.get(path)

    assert (response.status_code, response.json()["code"]) == (404, "unknown_session")


async def test_large_counts_are_read_back_digit_for_digit(client):
    learner = ARMS | {"horizon": 2**53 - 1, "max_delay": 2, "total_delay": 2**53 - 1}

    view = (await client.post("/v1/sessions", json={"learner": learner, "seed": 2**63 - 1})).json()

    assert view["learner"]["horizon"] == 2**53 - 1
