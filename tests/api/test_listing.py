"""Every page of a list leads to the next one, whatever ids sessions have."""

from __future__ import annotations

import uuid

import pytest

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
