"""The options of a store beside its URL."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple


class StoreOptions(NamedTuple):
    """Key prefix, limits and timeouts of a store; the defaults suit a service near its Redis."""

    prefix: str = "bandit"
    """First part of every key."""
    dedupe_window_seconds: float = 24 * 3600.0
    """Shortest time for which event ids and answers are remembered."""
    max_connections: int = 32
    """Most connections of one worker to the store; in a cluster, to each master."""
    pool_wait_seconds: float = 1.0
    """Timeout for a free connection."""
    connect_seconds: float = 1.0
    """Timeout for opening a connection."""
    reply_seconds: float = 2.0
    """Timeout for a reply."""
    retry_seconds: float = 2.0
    """A call is not retried later than this after its first attempt, nor in an outage that has lasted longer."""
    min_replicas: int = 0
    """Replicas that must acknowledge a commit before clients get their answers; 0 waits for none."""
    replica_seconds: float = 1.0
    """Timeout for these replicas."""
    ping_seconds: float = 0.8
    """Timeout of ``ping``, retries included."""
    data_folder: Path | None = None
    """Where an embedded store writes, to notice a disk that gets full; None for other stores."""
    on_clock_step_back: Callable[[], None] | None = None
    """Called each time the store's clock turns out to have been set back."""
