"""Session ``s`` over HTTP, of four arms where nothing else is said: made, asked for acts and viewed."""

from __future__ import annotations

from tests.support import vectors

PATH = "/v1/sessions/s"
ARMS = ["a", "b", "c", "d"]
KINDS = vectors.over_arms()
TAKES = vectors.with_eligible_arms()


async def session(client, *, kind="centred_tsallis", arms=ARMS, **fields):
    size = {"arms": list(arms)} if isinstance(arms, list) else {"n_arms": arms}
    learner = {"kind": kind} | size | KINDS[kind] | fields.pop("learner", {})
    response = await client.post("/v1/sessions", json={"session_id": "s", "learner": learner, "seed": 7} | fields)
    assert response.status_code == 201, response.text
    return response.json()


async def act(client, status=200, headers=None, **body):
    return await _posted(client, "act", status, headers, body)


async def acts(client, status=200, headers=None, **body):
    return await _posted(client, "acts", status, headers, body)


async def _posted(client, call, status, headers, body):
    response = await client.post(f"{PATH}/{call}", json=body, headers=headers)
    assert response.status_code == status, response.text
    return response.json()


async def view(client, path=PATH):
    return (await client.get(path)).json()
