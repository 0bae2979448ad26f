"""The client that is awaited. ``blocking`` has the same methods."""

from __future__ import annotations

from .bandits import AsyncBandits
from .session import AsyncSession
from .sessions import AsyncSessions

__all__ = ["AsyncBandits", "AsyncSession", "AsyncSessions"]
