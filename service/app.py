"""The application: built by a function, nothing at import."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI
from starlette.types import ASGIApp, Lifespan, Receive, Scope, Send

from . import __version__
from .api.calls import Requests
from .api.middleware import KeyCheck, check_origin, labels
from .api.openapi import document
from .api.problems import install
from .api.routes import ROUTES
from .api.runtime import Runtime, access_of
from .api_keys import KeyRing, needs_keys
from .sessions.clicks import ClickRates
from .sessions.expiry_sweeper import Sweeper
from .sessions.service import Readiness, Schemas, Sessions
from .settings import Settings
from .store import open_store
from .store.base import Store, StoreOptions
from .store.embedded import data_folder
from .telemetry.metrics import Metrics, timed, watch_process

if TYPE_CHECKING:
    from .telemetry.tracing import Spans

LAST_SECONDS = 2.0
"""How long a stop waits, after the last answer, for a store, and a collector of traces, that may be hanging."""


class Application(FastAPI):
    """The routes, and around all of FastAPI what answers the calls of the API, and logs every request.

    FastAPI puts middleware that is added to it inside its handler of uncaught errors; the answers of that handler
    would then have no request id and no log line.

    Parameters
    ----------
    runtime : what requests share; on ``state.runtime``
    lifespan : runs from before the first request until after the last answer
    spans : makes traces; None where requests are not traced

    Attributes
    ----------
    outermost : what a server calls; calling the application itself does the same, and takes one call more
    calls : the same without middleware, for what other workers hand over
    """

    def __init__(self, runtime: Runtime, lifespan: Lifespan[FastAPI], spans: Spans | None) -> None:
        super().__init__(
            title="Bandit online learning with unknown delays",
            version=__version__,
            routes=list(ROUTES),
            lifespan=lifespan,
            redirect_slashes=False,
            openapi_url=None,
            docs_url=None,
            redoc_url=None,
            # FastAPI's would report raw paths and query strings.
            telemetry={"tracing": False, "metrics": False, "logs": False, "auto_configure": False},
        )
        self.state.runtime = runtime
        problem = install(self, runtime.metrics, runtime.settings.retry_after_seconds)
        keys = KeyCheck([(route, access_of(route)) for route in self.routes], runtime)
        admit = keys.admit if needs_keys(runtime.settings) else None
        self.requests = requests = Requests(super().__call__, self, runtime, spans, admit, problem)
        self.outermost: ASGIApp = requests if spans is None else spans.around(requests)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.outermost(scope, receive, send)

    def openapi(self) -> dict[str, Any]:
        """Return the OpenAPI document, made once."""
        if self.openapi_schema is None:
            self.openapi_schema = document(self, self.state.runtime.settings)
        return self.openapi_schema


def create_app(
    settings: Settings,
    store: Store | None = None,
    metrics_folder: Path | None = None,
    spans: Spans | None = None,
    draining: Callable[[], bool] = lambda: False,
    full_at: memoryview[float] | None = None,
) -> Application:
    """Build the service on a store; without one, the settings' URL chooses it.

    The store is used from the first request on, and closed after the last answer: requests accepted before a stop
    are committed, then the connections are given back.

    Parameters
    ----------
    settings : of the service, checked
    store : opened already; None where the URL is to be opened
    metrics_folder : where the workers of one service count together; None where this process is the only one
    spans : makes traces, and is closed with the store; None where no traces are made
    draining : whether the service is about to stop: it is not ready then
    full_at : what the workers share of API keys, as ``KeyRing`` takes it; None where this process is the only one
    """
    metrics = Metrics(labels(), metrics_folder)
    opened = store or open_store(settings.store_url.get_secret_value(), options=store_options(settings, metrics))
    untraced = timed(opened, metrics)
    readiness = Readiness(untraced, metrics)
    calls = timed(opened, metrics, None if spans is None else spans.store_call, readiness.on_failure)
    runtime = Runtime(
        settings=settings,
        api_keys=KeyRing(settings, full_at),
        metrics=metrics,
        sessions=Sessions(calls, settings, metrics, Schemas(untraced)),
        readiness=readiness,
        clicks=ClickRates(settings.clicks_per_second),
        check_origin=check_origin(settings),
        draining=draining,
    )
    return Application(runtime, partial(_lifespan, runtime, opened, spans), spans)


@asynccontextmanager
async def _lifespan(runtime: Runtime, store: Store, spans: Spans | None, _: FastAPI) -> AsyncIterator[None]:
    metrics, readiness, schemas = runtime.metrics, runtime.readiness, runtime.sessions.schemas
    announcing = await schemas.begin(readiness.on_failure)
    telling = (metrics.sweeper_backlog.set, readiness.on_failure, metrics.sessions_with_hint)
    sweeper = Sweeper(store, runtime.sessions, *telling)
    sweeping = asyncio.create_task(sweeper.run())
    sampler = runtime.sessions.sampler
    sampling = [asyncio.create_task(sampler.run(readiness.on_failure))] if runtime.settings.history else []

    async def is_ready() -> bool:
        return not runtime.draining() and await readiness.failure() is None

    watching = watch_process(metrics, lambda: runtime.sessions.queues.waiting, is_ready, store.figures)
    watches = (runtime.api_keys.watch(), runtime.sessions.tokens.watch(), readiness.watch(), watching)
    endless = [announcing, *map(asyncio.create_task, watches)]
    try:
        yield
        sweeper.stop()
        sampler.stop()
        await _finish(*sampling, sweeping, asyncio.create_task(runtime.sessions.drained()))
        announcing.cancel()
        await _finish(asyncio.create_task(schemas.withdraw()))
    finally:
        for task in endless:
            task.cancel()
        await store.close()
        if spans is not None:
            await spans.close(LAST_SECONDS)


async def _finish(*tasks: asyncio.Task[Any]) -> None:
    """Wait for what is under way, but not for long: those who asked have their answers by now."""
    _, late = await asyncio.wait(tasks, timeout=LAST_SECONDS)
    for task in late:
        task.cancel()
    await asyncio.gather(*late, return_exceptions=True)


def store_options(settings: Settings, metrics: Metrics) -> StoreOptions:
    """Collect what the settings say about the store, and what it counts.

    Parameters
    ----------
    settings : of the service: key prefix, dedupe window, connections and timeouts of its store
    metrics : count the steps back of the store's clock
    """
    return StoreOptions(
        prefix=settings.key_prefix,
        dedupe_window_seconds=settings.dedupe_window_seconds,
        max_connections=settings.store_connections,
        min_replicas=settings.min_replicas,
        reply_seconds=settings.store_timeout_seconds,
        retry_seconds=settings.store_budget_seconds,
        data_folder=data_folder(settings.store_url.get_secret_value(), settings.data_dir),
        on_plain_commit=metrics.plain_commits,
        on_clock_step_back=metrics.clock_steps_back,
    )
