"""The values that labels of metrics can have, known from the code."""

from __future__ import annotations

from fastapi.routing import APIRoute

from ..errors import ServiceError
from ..learners import REGISTRY
from ..telemetry.metrics import Labels
from .routes import docs, health, sessions, slots


def labels() -> Labels:
    """The values that labels of metrics can have."""
    served = [route for routes in (slots, sessions, health, docs) for route in routes.router.routes]
    routes = [
        (method, route.path) for route in served if isinstance(route, APIRoute) for method in route.methods or ()
    ]
    return Labels(
        routes=[*routes, ("GET", "/openapi.json"), ("GET", f"/{docs.ASSETS}")],
        codes=sorted({error.code for error in ServiceError.__subclasses__()}),
        learners=REGISTRY,
    )
