"""Sessions in this process, for trials and tests: the whole contract, but nothing outlives the process."""

from __future__ import annotations

from .store import MemoryStore

__all__ = ["MemoryStore"]
