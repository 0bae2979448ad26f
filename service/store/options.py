"""What a store can be told beside its URL."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """Names, limits and patience of a store; the defaults suit one service beside its Redis."""

    prefix: str = "bandit"
    """First part of every key."""
    dedupe_window_seconds: float = 24 * 3600.0
    """For how long event ids and answers are remembered, at least."""
    max_connections: int = 32
    """Connections of one worker to the store."""
    pool_wait_seconds: float = 1.0
    """Longest wait for one of them to be free."""
    connect_seconds: float = 1.0
    """Longest wait for a new connection."""
    reply_seconds: float = 2.0
    """Longest wait for a reply."""
    resend_seconds: float = 2.0
    """No call is sent again later than this after its first sending, nor while an outage has lasted longer."""
    min_replicas: int = 0
    """Replicas that must have a commit before it counts as done."""
    replica_seconds: float = 1.0
    """Longest wait for them."""
    ping_seconds: float = 0.8
    """Longest wait of ``ping``, over all."""
