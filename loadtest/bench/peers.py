"""What one would write instead of the service: EXP3 of river behind FastAPI, in memory or in Redis under a lock.

Served by uvicorn as ``loadtest.bench.peers:make_app``; needs the extra ``peers``.
"""

from __future__ import annotations

import os
import pickle
import random
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

from fastapi import FastAPI
from pydantic import BaseModel
from redis.asyncio import Redis
from river.bandit import Exp3

from loadtest.bench.floors import LOCKED_PATH, MEMORY_PATH, PEERS_ARMS, PEERS_REDIS, Event, Settled
from service.server.worker import limit_event_loop_waits

EXPLORED = 0.1
"""Share of uniform draws."""
LOCK_SECONDS = 10
"""After so long a lock is free again, also if its holder has died."""


class Drawn(BaseModel):
    """An answer as an action's; it names its session, which the load needs to report there."""

    session: int
    arm: int


def make_app() -> FastAPI:
    """Make the routes ``act`` and ``feedback``, once for each way to keep the policies."""
    app = FastAPI(openapi_url=None)
    arms = list(range(int(os.environ[PEERS_ARMS])))
    _in_memory(app, arms)
    _under_a_lock(app, arms, Redis.from_url(os.environ[PEERS_REDIS]))
    limit_event_loop_waits()
    return app


def _new_policy() -> Exp3:
    return Exp3(gamma=EXPLORED, seed=random.randrange(2**32))  # noqa: S311 - no secret


def _in_memory(app: FastAPI, arms: list[int]) -> None:
    """Keep the policies in a dictionary of this process."""
    policies: defaultdict[int, Exp3] = defaultdict(_new_policy)

    @app.post(f"{MEMORY_PATH}/act")
    async def act(session: int) -> Drawn:
        return Drawn(session=session, arm=policies[session].pull(arms))

    @app.post(f"{MEMORY_PATH}/feedback")
    async def feedback(session: int, event: Event) -> Settled:
        policies[session].update(event.arm, 1 - event.loss)
        return Settled()


def _under_a_lock(app: FastAPI, arms: list[int], redis: Redis) -> None:
    """Read, change and write a pickled policy while no other request may."""

    @asynccontextmanager
    async def locked(session: int) -> AsyncIterator[Exp3]:
        key = f"peers:{session}"
        async with redis.lock(f"{key}:lock", timeout=LOCK_SECONDS):
            stored = cast("bytes | None", await redis.get(key))
            policy = pickle.loads(stored) if stored else _new_policy()  # noqa: S301 - written here
            yield policy
            await redis.set(key, pickle.dumps(policy))

    @app.post(f"{LOCKED_PATH}/act")
    async def act(session: int) -> Drawn:
        async with locked(session) as policy:
            return Drawn(session=session, arm=policy.pull(arms))

    @app.post(f"{LOCKED_PATH}/feedback")
    async def feedback(session: int, event: Event) -> Settled:
        async with locked(session) as policy:
            policy.update(event.arm, 1 - event.loss)
        return Settled()
