"""The application: built by a function, nothing at import."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI

from . import __version__
from .api import problems
from .api.metric_labels import labels
from .api.middleware import request_log
from .api.openapi.document import describe
from .api.routes import docs, health, sessions, slots
from .sessions.expiry_sweeper import Sweeper
from .sessions.readiness import Readiness
from .sessions.service import Sessions
from .settings import Settings
from .store import open_store
from .store.base import Store
from .store.instrumented import InstrumentedStore
from .store.options import StoreOptions
from .telemetry.metrics import Metrics

if TYPE_CHECKING:
    from .telemetry.tracing import Spans

TITLE = "Bandit online learning with unknown delays"
ROUTES = [route for part in (slots, sessions, health) for route in part.router.routes]
"""Flat: a router within the application costs each request as much again as finding its route."""
LAST_SECONDS = 2.0
"""How long a stop waits, after the last answer, for a store, and a collector of traces, that may be hanging."""
NO_TELEMETRY: Any = {"tracing": False, "metrics": False, "logs": False, "auto_configure": False}
"""FastAPI's own, which would tell of raw paths and query strings."""


def create_app(
    settings: Settings,
    store: Store | None = None,
    metrics_folder: Path | None = None,
    spans: Spans | None = None,
) -> FastAPI:
    """The service on a store; without one, the settings' URL chooses it.

    The store is opened before the first request and closed after the last answer: requests accepted
    before a stop are committed, then the connections are given back.

    Parameters
    ----------
    metrics_folder : where the workers of one service count together
    spans : makes traces, and is closed with the store
    """
    metrics = Metrics(labels(), metrics_folder)
    app = FastAPI(
        title=TITLE,
        version=__version__,
        routes=ROUTES,
        lifespan=partial(_lifespan, settings, store, metrics, spans),
        redirect_slashes=False,
        docs_url=None,
        redoc_url=None,
        telemetry=NO_TELEMETRY,
    )
    app.state.settings = settings
    app.state.metrics = metrics
    docs.install(app)
    problems.install(app, settings.retry_after_seconds)
    request_log.install(app, metrics, settings, spans)
    describe(app)
    return app


@asynccontextmanager
async def _lifespan(
    settings: Settings, store: Store | None, metrics: Metrics, spans: Spans | None, app: FastAPI
) -> AsyncIterator[None]:
    opened = store or open_store(settings.store_url.get_secret_value(), options=store_options(settings))
    app.state.sessions = Sessions(InstrumentedStore(opened, metrics, spans), settings, metrics)
    app.state.readiness = Readiness(InstrumentedStore(opened, metrics))
    sweeper = Sweeper(opened.reminders, app.state.sessions)
    sweeping = asyncio.create_task(sweeper.run())
    first_look = asyncio.create_task(app.state.readiness.failure())
    try:
        yield
        sweeper.stop()
        await _finish(sweeping, first_look, asyncio.create_task(app.state.sessions.drained()))
    finally:
        await opened.close()
        if spans is not None:
            await spans.close(LAST_SECONDS)


async def _finish(*tasks: asyncio.Task[Any]) -> None:
    """Wait for what is under way, but not for long: those who asked have their answers by now."""
    _, late = await asyncio.wait(tasks, timeout=LAST_SECONDS)
    for task in late:
        task.cancel()
    await asyncio.gather(*late, return_exceptions=True)


def store_options(settings: Settings) -> StoreOptions:
    """What the settings say about the store."""
    return StoreOptions(
        prefix=settings.key_prefix,
        dedupe_window_seconds=settings.dedupe_window_seconds,
        max_connections=settings.store_connections,
        min_replicas=settings.min_replicas,
        reply_seconds=settings.store_timeout_seconds,
        resend_seconds=settings.store_budget_seconds,
    )
