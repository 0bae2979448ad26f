"""The service twice: as it is, and with all requests answered by FastAPI's routes."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from fastapi import FastAPI

from service.app import create_app
from service.settings import Settings
from service.store.memory import MemoryStore

from .asgi import Asked

LEARNERS = {
    "hot": {"learner": {"kind": "dexp3", "n_arms": 3}},
    "rated": {"learner": {"kind": "dexp3", "n_arms": 3}, "reward_range": [0, 1]},
    "named": {"learner": {"kind": "centred_tsallis", "arms": ["a", "b:c", "é"]}},
    "waits": {"learner": {"kind": "dexp3", "n_arms": 2}, "expiry": {"after_seconds": 3600, "default_loss": 1}},
    "logged": {"learner": {"kind": "dexp3", "n_arms": 3}, "decision_log": {"max_entries": 100}},
    "slots": {"learner": {"kind": "exp3", "n_arms": 3, "learning_rate": 0.1}},
    "points": {"learner": {"kind": "dbgd", "dim": 2, "feasible_set": {"kind": "ball", "radius": 1}}},
}


@asynccontextmanager
async def both_ways(
    monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> AsyncIterator[tuple[Asked, Asked, list[str]]]:
    """The service, the same without its hot routes, and the paths that FastAPI got of the first.

    Both have the sessions of ``LEARNERS``.
    """
    by_fastapi: list[str] = []
    of_fastapi = FastAPI.__call__

    async def noted(self, scope, receive, send):
        if scope["type"] == "http":
            by_fastapi.append(scope["path"])
        await of_fastapi(self, scope, receive, send)

    async with AsyncExitStack() as stack:
        with monkeypatch.context() as patched:
            patched.setattr(FastAPI, "__call__", noted)
            hot = create_app(settings, MemoryStore())
        with monkeypatch.context() as patched:
            patched.setattr("service.app.HotRoutes", lambda app, *_: app)
            plain = create_app(settings, MemoryStore())
        for app in (hot, plain):
            await stack.enter_async_context(app.router.lifespan_context(app))
        asked = Asked(hot), Asked(plain)
        for name, fields in LEARNERS.items():
            body = json.dumps({"session_id": name, "seed": 5, **fields}).encode()
            for app in asked:
                assert (await app.ask("/v1/sessions", body))[0] == 201
        by_fastapi.clear()
        yield *asked, by_fastapi
