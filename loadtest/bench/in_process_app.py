"""The application in this process, called without a server and without a client."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI
from starlette.types import Message

from loadtest.errors import ServiceError
from service.app import create_app
from service.settings import Settings
from service.store.memory import MemoryStore

Answer = tuple[int, Sequence[bytes]]
"""Status, and the parts of the body."""
Headers = Sequence[tuple[bytes, bytes]]

CHUNK = 65_536
"""Bytes of a body that arrive at a time."""


class InProcessApp:
    """Calls an application with its store in memory directly, without a client.

    A client would use the event loop to read the answers.
    """

    def __init__(self, app: FastAPI) -> None:
        self._app = app

    def call(self, method: str, path: str, body: Any = None, headers: Headers = ()) -> Coroutine[Any, Any, Answer]:
        """Return a coroutine that gives status and parts of the answer; the request's body is encoded before."""
        return self._answer(method, path, b"" if body is None else json.dumps(body).encode(), headers)

    async def _answer(self, method: str, path: str, content: bytes, headers: Headers) -> Answer:
        parts = iter([content[at : at + CHUNK] for at in range(0, len(content), CHUNK)] or [b""])
        left = len(content)
        status, answer = 0, []

        async def receive() -> Message:
            nonlocal left
            part = next(parts)
            left -= len(part)
            return {"type": "http.request", "body": part, "more_body": left > 0}

        async def send(message: Message) -> None:
            nonlocal status
            if "status" in message:
                status = message["status"]
            else:
                answer.append(message["body"])

        path, _, query = path.partition("?")
        scope: dict[str, Any] = {"type": "http", "http_version": "1.1", "method": method}
        scope |= {"path": path, "root_path": ""}
        described = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(content))]
        scope |= {"query_string": query.encode(), "headers": [*described, *headers]}
        await self._app(scope, receive, send)
        return status, answer

    async def create(self, learner: dict[str, Any]) -> str:
        """Create a session and return its path."""
        status, answer = await self.call("POST", "/v1/sessions", {"learner": learner, "seed": 7})
        if status != HTTPStatus.CREATED:
            raise ServiceError(f"no session: {status}")
        return f"/v1/sessions/{json.loads(b''.join(answer))['session_id']}"

    async def acted(self, count: int) -> str:
        """Create a session of one arm with so many outstanding acts, and return its path."""
        path = await self.create({"kind": "dexp3", "n_arms": 1})
        for _ in range(count // 1000):
            await self.call("POST", f"{path}/acts", {"count": 1000})
        return path


@asynccontextmanager
async def in_process_app() -> AsyncIterator[InProcessApp]:
    """Start an application as a worker does, and end it."""
    app = create_app(Settings(), MemoryStore())
    async with app.router.lifespan_context(app):
        yield InProcessApp(app)
