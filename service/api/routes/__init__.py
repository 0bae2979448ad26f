"""The routes, by subject. ``ROUTES`` has all of them in the order in which they are tried."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.routing import BaseRoute

from . import service_routes, sessions, slots

ROUTES: Sequence[BaseRoute] = [
    route
    for router in (
        slots.router,
        sessions.router,
        service_routes.router,
        service_routes.router_of_keys,
        service_routes.router_of_docs,
        service_routes.router_of_dashboard,
    )
    for route in router.routes
]
"""Flat: a router within the application costs each request as much again as finding its route."""
