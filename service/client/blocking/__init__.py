"""The blocking client, for any number of threads. ``awaited`` has the same methods."""

from __future__ import annotations

from .bandits import Bandits
from .session import Session
from .sessions import Sessions

__all__ = ["Bandits", "Session", "Sessions"]
