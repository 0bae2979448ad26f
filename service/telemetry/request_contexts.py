"""The requests that wait for the current call to the store: one commit serves a batch of requests."""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import Context, ContextVar

BATCH_CONTEXTS: ContextVar[Sequence[Context]] = ContextVar("batch_contexts", default=())
"""Contexts of the requests in the batch being committed; empty during a call for a single request."""
