"""The service within the process of your tests, with the client's own methods. Needs the extra ``server``.

Sessions are kept in memory, time stands still until ``advance``, and with a ``seed`` every answer is that of a
service which is called in the same order at the same times.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import httpx

from .app import create_app
from .client import AsyncBandits, Bandits
from .settings import Settings
from .store.memory import MemoryStore

T = TypeVar("T")
URL = "http://localhost"
CALL_SECONDS = 45.0
"""A call takes longer only where the service hangs: it waits for an entry of a log for 30 at most."""


class _Service(httpx.BaseTransport, httpx.AsyncBaseTransport):
    """An application on an event loop of its own thread, so that any thread and any loop may call it."""

    def __init__(self, **settings: Any) -> None:
        self.now, self.is_away = time.time(), False
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="delayed-bandits-testing", daemon=True)
        self._thread.start()
        app = create_app(Settings(**settings), MemoryStore(clock=lambda: self.now))
        self._app = httpx.ASGITransport(app, raise_app_exceptions=False)
        self._lifespan = app.router.lifespan_context(app)
        self._wait_for(self._lifespan.__aenter__())

    def _wait_for(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(CALL_SECONDS)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        return self._wait_for(self._answer(request))

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._answer(request), self._loop))

    async def _answer(self, request: httpx.Request) -> httpx.Response:
        if self.is_away:
            raise httpx.ConnectError("the service is away")
        answer = await self._app.handle_async_request(request)
        return httpx.Response(answer.status_code, headers=answer.headers, content=await answer.aread())

    def stop(self) -> None:
        if self._thread.is_alive():
            self._wait_for(self._lifespan.__aexit__(None, None, None))
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()


class _Local:
    """What tests may do to the service."""

    _service: _Service

    def advance(self, seconds: float) -> None:
        """Let time pass for the service: windows end, idle sessions expire."""
        self._service.now += seconds

    @contextmanager
    def outage(self) -> Iterator[None]:
        """Let nobody reach the service within the block."""
        self._service.is_away = True
        try:
            yield
        finally:
            self._service.is_away = False


class LocalBandits(_Local, Bandits):
    """``Bandits`` on a service within this process.

    Parameters
    ----------
    settings : of the service, by the names of ``docs/settings.md`` without ``BANDIT_``, in lower case
    options : of ``Bandits``
    """

    def __init__(self, settings: dict[str, Any] | None = None, **options: Any) -> None:
        self._service = _Service(**settings or {})
        super().__init__(URL, transport=self._service, **options)

    def close(self) -> None:
        """Send the reports that wait, then end the service; its sessions are gone."""
        super().close()
        self._service.stop()


class AsyncLocalBandits(_Local, AsyncBandits):
    """``AsyncBandits`` on a service within this process; see ``LocalBandits``."""

    def __init__(self, settings: dict[str, Any] | None = None, **options: Any) -> None:
        self._service = _Service(**settings or {})
        super().__init__(URL, transport=self._service, report_transport=self._service, **options)

    async def close(self) -> None:
        """Send the reports that wait, then end the service; its sessions are gone."""
        await super().close()
        self._service.stop()
