"""What the service's throughput is compared with: less work, or the same done otherwise, on the same stack.

Served by uvicorn as ``loadtest.bench.floors:make_app`` with the address of a Redis in ``FLOORS_REDIS``.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

from fastapi import FastAPI
from pydantic import BaseModel, ConfigDict
from redis.asyncio import Redis
from redis.asyncio.connection import parse_url
from starlette.types import ASGIApp, Receive, Scope, Send

from service.server.worker import limit_event_loop_waits
from service.store.redis.connection import Pipeline, packed

REDIS = "FLOORS_REDIS"
"""The variable with the Redis's URL."""
KEY = "floors"
PEERS_ARMS, PEERS_REDIS = "PEERS_ARMS", "PEERS_REDIS"
"""Variables of the peers, with the number of arms and the Redis's URL."""
MEMORY_PATH, LOCKED_PATH = "/memory/{session}", "/locked/{session}"
"""Of the peers' two ways."""
RATES = (0.01, 1.0, 0.1)
"""eta, delta_1 and delta_2; any will do, as every step costs the same."""


class Event(BaseModel):
    """A body as an event's: strict, and with no other fields."""

    model_config = ConfigDict(strict=True, extra="forbid")

    arm: int
    loss: float


class Settled(BaseModel):
    """An answer as a settlement's."""

    applied: int = 1
    duplicates: int = 0
    slot: int = 1
    outstanding: int = 0


class Drawn(BaseModel):
    """An answer as an action's."""

    slot: int
    arm: int


HEAD = {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]}
BODY = {"type": "http.response.body", "body": b"{}"}


def make_app() -> ASGIApp:
    """Make the floors, with garbage and threads as a worker of the service has them.

    A bare ASGI function; an endpoint of FastAPI that does nothing (N), one with a GET by redis-py's pool (G), one
    with a GET on one pipelined connection (P); and a learner written as scripts.
    """
    app = FastAPI(openapi_url=None)
    url = os.environ[REDIS]
    redis: Redis = Redis.from_url(url, max_connections=64)
    scripts = Path(__file__).parent / "lua"
    act, feedback = (
        redis.register_script((scripts / f"{name}.lua").read_text("utf-8")) for name in ("act", "feedback")
    )
    get, pipelines = packed(("GET", f"{KEY}:nothing")), list[Pipeline]()

    @app.post("/nothing")
    async def nothing(event: Event) -> Settled:  # noqa: ARG001 - a floor
        return Settled()

    @app.post("/read")
    async def read(event: Event) -> Settled:  # noqa: ARG001 - a floor
        await redis.get(f"{KEY}:nothing")
        return Settled()

    @app.post("/pipelined")
    async def pipelined(event: Event) -> Settled:  # noqa: ARG001 - a floor
        if not pipelines:
            pipelines.append(await Pipeline.open(parse_url(url), 5))
        await pipelines[0].send(get)
        return Settled()

    @app.post("/act")
    async def acted(n_arms: int) -> Drawn:
        arm, slot = await act(keys=[KEY], args=[n_arms, random.random()])  # noqa: S311 - no secret
        return Drawn(slot=slot, arm=arm)

    @app.post("/feedback")
    async def fed(event: Event) -> Settled:
        slot, outstanding = await feedback(keys=[KEY], args=[event.arm, event.loss, *RATES])
        return Settled(slot=slot, outstanding=outstanding)

    async def bare(scope: Scope, receive: Receive, send: Send) -> None:
        if scope.get("path") != "/bare":
            await app(scope, receive, send)
            return
        await send(HEAD)
        await send(BODY)

    limit_event_loop_waits()
    return bare
