"""A server killed in the middle of commits: with ``appendfsync always`` its file has all it acknowledged."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from service.errors import StoreUnavailableError
from service.store.base import Committed, StoreOptions
from service.store.redis.store import RedisStore
from tests.support.real_redis import RedisServer
from tests.support.sessions import commit, digest, new_session
from tests.support.waiting import wait_until

KILLS = 5
WORTH = 200
"""Commits before a kill."""
WRITERS = 4


@pytest.fixture
def server(server_program: str, tmp_path: Path) -> Iterator[RedisServer]:
    server = RedisServer(tmp_path, "--appendfsync", "always").start()
    yield server
    server.close()


async def commit_until_it_fails(store: RedisStore, name: str, acknowledged: dict[str, int]) -> None:
    with suppress(StoreUnavailableError):
        while True:
            n = acknowledged[name]
            grown = commit(f"v{n}", f"v{n + 1}", session_id=name, writer=f"{n:x}", event_ids=[digest(n)])
            assert await store.commit(grown) == Committed()
            acknowledged[name] = n + 1


@pytest.mark.slow
async def test_what_was_acknowledged_survives_sigkill_and_at_most_one_commit_more_does(server: RedisServer) -> None:
    """The one more is that whose reply was lost."""
    names = [f"s{n}" for n in range(WRITERS)]
    for _ in range(KILLS):
        store = RedisStore(server.url, StoreOptions(retry_seconds=0.01))
        acknowledged = dict.fromkeys(names, 0)
        for name in names:
            await store.delete(name)
            await store.create(new_session(name))
        committing = [asyncio.create_task(commit_until_it_fails(store, name, acknowledged)) for name in names]
        await asyncio.to_thread(wait_until, lambda told=acknowledged: sum(told.values()) >= WORTH)
        await asyncio.to_thread(server.kill)
        await asyncio.gather(*committing)
        await store.close()
        await asyncio.to_thread(server.start)

        kept = {name: int(server.client.hget(f"bandit:{{{name}}}", "version")[1:]) for name in names}
        assert all(kept[name] - acknowledged[name] in (0, 1) for name in names)
        for name in names:
            ids = sum(server.client.hlen(key) for key in server.client.scan_iter(f"bandit:{{{name}}}:seen:*"))
            assert ids == kept[name]
