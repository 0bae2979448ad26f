"""The routes, by subject. ``ROUTES`` has all of them in the order in which they are tried."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.routing import BaseRoute

from . import dashboard, docs, health, keys, pages, sessions, slots, transfer

ROUTES: Sequence[BaseRoute] = [
    route
    for part in (slots, sessions, pages, transfer, health, keys, docs, dashboard)
    for route in part.router.routes
]
"""Flat: a router within the application costs each request as much again as finding its route."""
