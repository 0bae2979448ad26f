"""The values that labels of metrics can have: known from the code, so that requests add none."""

from __future__ import annotations

from collections.abc import Iterator

from fastapi.routing import APIRoute
from starlette.routing import Mount, Route

from ..errors import ServiceError
from ..learners import REGISTRY
from ..telemetry.metrics import Labels
from .routes import ROUTES


def labels() -> Labels:
    """Collect the routes, problem codes and learners."""
    return Labels(
        routes=_routes(),
        codes=sorted({error.code for error in ServiceError.__subclasses__()}),
        learners=REGISTRY,
    )


def _routes() -> Iterator[tuple[str, str]]:
    """Return methods and paths; of what is not in the OpenAPI document, GET alone."""
    for route in ROUTES:
        if isinstance(route, APIRoute):
            yield from ((method, route.path) for method in route.methods or ())
        elif isinstance(route, Route | Mount):
            yield "GET", route.path
