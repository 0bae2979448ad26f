"""A session in a store whose clock the test sets, and its PATCH."""

from __future__ import annotations

import pytest

from service.store.memory import MemoryStore

ARMS = {"kind": "centred_tsallis", "arms": ["a", "b"]}
PATH = "/v1/sessions/s"
WINDOW = {"after_seconds": 64, "default_loss": 0}


@pytest.fixture
def store(clock):
    return MemoryStore(clock=clock)


@pytest.fixture
async def client(make_client, store):
    return await make_client(store)


async def created(client, **fields):
    body = {"session_id": "s", "learner": ARMS, "loss_range": [1, 0], "seed": 5} | fields
    response = await client.post("/v1/sessions", json=body)
    assert response.status_code == 201, response.text
    return body


async def patch(client, status=200, headers=None, **fields):
    response = await client.patch(PATH, json=fields, headers=headers or {})
    assert response.status_code == status, response.text
    return response.json()


async def counts(client):
    view = (await client.get(PATH)).json()
    return view["outstanding"], view["expired"]
