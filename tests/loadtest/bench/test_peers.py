"""What one would write instead, as the bench measures it: both ways work, and neither knows a repeated event."""

from __future__ import annotations

import pickle

import httpx
import pytest

from loadtest.bench.targets import LOCKED_PATH, MEMORY_PATH, PEERS_ARMS, PEERS_REDIS
from tests.support.real_redis import RedisServer

pytest.importorskip("river", reason="needs the extra peers")
SESSION = 7


@pytest.mark.parametrize("path", [MEMORY_PATH, LOCKED_PATH])
async def test_a_session_acts_and_learns(redis_server: RedisServer, monkeypatch, path: str) -> None:
    from loadtest.bench.peers import make_app

    monkeypatch.setenv(PEERS_ARMS, "5")
    monkeypatch.setenv(PEERS_REDIS, redis_server.url)
    path = path.format(session=SESSION)
    transport = httpx.ASGITransport(make_app())
    async with httpx.AsyncClient(transport=transport, base_url="http://peers") as client:
        drawn = (await client.post(f"{path}/act")).raise_for_status().json()
        assert (drawn["session"], drawn["arm"] in range(5)) == (SESSION, True)
        event = {"arm": drawn["arm"], "loss": 0.0}
        for _ in range(2):
            (await client.post(f"{path}/feedback", json=event)).raise_for_status()
        assert (await client.post(f"{path}/feedback", json={"arm": "1", "loss": 0})).status_code == 422

    if path.startswith("/locked"):
        stored = redis_server.client.get(f"peers:{SESSION}")
        assert isinstance(stored, bytes)
        assert pickle.loads(stored)._counts[drawn["arm"]] == 2
        redis_server.client.delete(f"peers:{SESSION}")
