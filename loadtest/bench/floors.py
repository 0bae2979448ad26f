"""What the service's throughput is compared with: less work, or the same done otherwise, on the same stack.

Served by uvicorn as ``loadtest.bench.floors:make_app`` with the address of a Redis in ``FLOORS_REDIS``.
"""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Annotated

from fastapi import Body, FastAPI, Response
from redis.asyncio import Redis

REDIS = "FLOORS_REDIS"
"""The variable with the Redis's URL."""
KEY = "floors"
RATES = (0.01, 1.0, 0.1)
"""eta, delta_1 and delta_2; any will do, as every step costs the same."""
JSON = "application/json"


def make_app() -> FastAPI:
    """An endpoint that does nothing, one with a GET of a Redis, and a learner written as scripts."""
    app = FastAPI(openapi_url=None)
    redis: Redis = Redis.from_url(os.environ[REDIS], max_connections=64)
    scripts = Path(__file__).parent / "lua"
    act, feedback = (
        redis.register_script((scripts / f"{name}.lua").read_text("utf-8")) for name in ("act", "feedback")
    )

    @app.get("/nothing")
    async def nothing() -> Response:
        return Response(b'{"status":"ok"}', media_type=JSON)

    @app.get("/read")
    async def read() -> Response:
        await redis.get(f"{KEY}:nothing")
        return Response(b'{"status":"ok"}', media_type=JSON)

    @app.post("/act")
    async def acted(n_arms: int) -> Response:
        arm, slot = await act(keys=[KEY], args=[n_arms, random.random()])  # noqa: S311 - no secret
        return Response(b'{"slot":%d,"arm":%d}' % (slot, arm), media_type=JSON)

    @app.post("/feedback")
    async def fed(arm: Annotated[int, Body()], loss: Annotated[float, Body()]) -> Response:
        slot, outstanding = await feedback(keys=[KEY], args=[arm, loss, *RATES])
        return Response(b'{"slot":%d,"outstanding":%d}' % (slot, outstanding), media_type=JSON)

    return app
