"""Lists give every session once, and every page of one leads to the next, whatever ids sessions have."""

from __future__ import annotations

import uuid

import pytest

from service.store.memory import MemoryStore

LONG = [f"{number:03}-".ljust(128, "x") for number in range(110)]
OWN = [str(uuid.UUID(int=number)) for number in range(110)]


@pytest.mark.parametrize("ids", [LONG, OWN], ids=["the longest ids", "ids of the service's kind"])
async def test_every_session_is_reached_with_pages_of_any_size(make_client, store, ids):
    client = await make_client(store)
    learner = {"kind": "dexp3", "n_arms": 2}
    for session_id in ids:
        await client.post("/v1/sessions", json={"session_id": session_id, "learner": learner})

    for limit in (1, 7, 100, 109):
        listed, params = set(), {"limit": limit}
        while True:
            answer = await client.get("/v1/sessions", params=params)
            assert answer.status_code == 200, answer.text
            page = answer.json()
            assert len(page["sessions"]) <= limit
            listed |= {summary["session_id"] for summary in page["sessions"]}
            if page["next_cursor"] is None:
                break
            params["cursor"] = page["next_cursor"]
        assert listed == set(ids)


class CountingStore(MemoryStore):
    """Counts how often a whole session is read."""

    loads = 0

    async def load(self, session_id):
        self.loads += 1
        return await super().load(session_id)


async def use(client, session_id, learner):
    await client.post("/v1/sessions", json={"session_id": session_id, "learner": learner, "seed": 1})
    for _ in range(3):
        await client.post(f"/v1/sessions/{session_id}/act")
    if "arms" in learner:
        await client.patch(f"/v1/sessions/{session_id}/arms", json={"add": ["new"], "remove": ["a"]})


LEARNERS = {
    "plain": {"kind": "dexp3", "n_arms": 3},
    "named": {"kind": "centred_tsallis", "arms": ["a", "b", "c"]},
    "points": {"kind": "dbgd", "dim": 2, "feasible_set": {"kind": "ball", "radius": 1.0}},
}


async def test_a_list_shows_views_without_distributions_and_reads_no_state(make_client):
    store = CountingStore()
    client = await make_client(store)
    views = []
    for name, learner in LEARNERS.items():
        await use(client, name, learner)
        view = (await client.get(f"/v1/sessions/{name}")).json()
        views.append(
            {field: value for field, value in view.items() if field not in ("probabilities", "x", "paused")}
        )
    loads = store.loads

    page = (await client.get("/v1/sessions")).json()

    assert page == {"sessions": sorted(views, key=lambda view: view["session_id"]), "next_cursor": None}
    assert store.loads == loads


@pytest.mark.parametrize("missing", [("about", "summary"), ("summary",), ("about",)])
async def test_sessions_whose_last_commit_wrote_nothing_for_lists_are_listed_alike(make_client, missing):
    store = MemoryStore()
    client = await make_client(store)
    for name, learner in LEARNERS.items():
        await use(client, name, learner)
    expected = (await client.get("/v1/sessions")).json()
    for session in store._sessions.values():
        for field in missing:
            setattr(session, field, b"")

    assert (await client.get("/v1/sessions")).json() == expected


async def test_a_summary_of_an_earlier_version_is_not_shown(make_client):
    """As after a commit of a program that writes none."""
    store = MemoryStore()
    client = await make_client(store)
    await use(client, "s", LEARNERS["plain"])
    session = store._sessions["s"]
    old = session.summary
    await client.post("/v1/sessions/s/act")
    session.summary = old

    assert (await client.get("/v1/sessions")).json()["sessions"][0]["slot"] == 4


async def test_a_session_with_many_labels_is_listed_without_them(make_client):
    client = await make_client()
    learner = {"kind": "dexp3", "arms": [f"arm {n}" for n in range(101)]}
    await client.post("/v1/sessions", json={"session_id": "s", "learner": learner})

    (shown,) = (await client.get("/v1/sessions")).json()["sessions"]

    assert "arms" not in shown["learner"]
    assert shown["learner"]["n_arms"] == 101


@pytest.mark.parametrize("params", [{"cursor": "no cursor!"}, {"limit": 0}, {"limit": 1001}, {"limit": "x"}])
async def test_a_list_refuses_what_it_never_gave(client, params):
    response = await client.get("/v1/sessions", params=params)

    assert (response.status_code, response.json()["code"]) == (422, "invalid_request")
