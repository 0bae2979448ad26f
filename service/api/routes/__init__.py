"""The routes, by subject. ``ROUTES`` has all of them in the order in which they are tried."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.routing import BaseRoute

from . import service_routes, sessions, slots

ROUTERS = (slots.router, slots.bulk, sessions.router, sessions.of_two, *service_routes.ROUTERS)
ROUTES: Sequence[BaseRoute] = [route for router in ROUTERS for route in router.routes]
"""Flat: a router within the application costs each request as much again as finding its route."""
