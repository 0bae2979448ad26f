"""The application under its lifespan, spoken to over ASGI."""

import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from functools import cache
from typing import Any

import httpx
import pytest

from service.app import create_app
from service.settings import Settings
from service.store.memory import MemoryStore
from service.telemetry.logs import JsonLines

Client = httpx.AsyncClient
MakeClient = Callable[..., Awaitable[Client]]


@cache
def default_settings() -> Settings:
    """Settings are frozen, and take 10 ms to make."""
    return Settings()


@pytest.fixture(scope="session")
def document() -> dict[str, Any]:
    """The OpenAPI document, which takes half a second to make."""
    return create_app(default_settings(), MemoryStore()).openapi()


@pytest.fixture
async def make_client() -> AsyncIterator[MakeClient]:
    """Start the application on a store (a fresh one in memory without one) and open a client."""
    async with AsyncExitStack() as stack:

        async def make(store: Any = None, **settings: Any) -> Client:
            app = create_app(Settings(**settings) if settings else default_settings(), store or MemoryStore())
            await stack.enter_async_context(app.router.lifespan_context(app))
            transport = httpx.ASGITransport(app, raise_app_exceptions=False)
            return await stack.enter_async_context(Client(transport=transport, base_url="http://service"))

        yield make


@pytest.fixture
async def client(make_client, memory) -> Client:
    return await make_client(memory)


@pytest.fixture
def create(client: Client) -> Callable[..., Awaitable[str]]:
    """Create a session of three arms (or as told) and give its path."""

    async def create_session(**fields: Any) -> str:
        body = {"learner": {"kind": "dexp3", "n_arms": 3}, "seed": 7} | fields
        response = await client.post("/v1/sessions", json=body)
        assert response.status_code == 201, response.text
        return f"/v1/sessions/{response.json()['session_id']}"

    return create_session


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Callable[[], list[dict[str, Any]]]:
    """Take the lines of requests that were logged since the last call."""
    caplog.set_level(logging.INFO, "service.requests")

    def take() -> list[dict[str, Any]]:
        records = [record for record in caplog.records if record.name == "service.requests"]
        caplog.clear()
        return [json.loads(JsonLines().format(record)) for record in records]

    return take
