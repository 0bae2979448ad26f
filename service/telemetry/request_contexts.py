"""Who waits for the call to the store under way: a commit is one call for many requests."""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import Context, ContextVar

BATCH_CONTEXTS: ContextVar[Sequence[Context]] = ContextVar("askers", default=())
"""The contexts of the requests whose batch is committed; of a call that a request makes by itself, none."""
