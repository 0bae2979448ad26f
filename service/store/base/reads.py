"""What is read from a store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from .counts import ArmCounts, Rows


class Snapshot(NamedTuple):
    """A session as stored. ``spec`` and ``state`` are opaque bytes."""

    version: str
    spec: bytes
    state: bytes
    created_at: float
    """Unix seconds by the store's clock."""
    expires_at: float | None
    """Unix seconds; None for a session without idle expiry."""


class Listed(NamedTuple):
    """What lists show of a session. Texts that were damaged by hand are empty, times None."""

    session_id: str
    version: str
    created_at: float | None
    """Unix seconds by the store's clock."""
    expires_at: float | None
    """Unix seconds; None for a session without idle expiry."""
    about: bytes
    """As the latest commit that brought one left it; empty where none did."""
    summary: bytes


class Page(NamedTuple):
    """Some sessions and where to go on, None at the end."""

    sessions: Sequence[Listed]
    next_cursor: str | None

    @property
    def session_ids(self) -> Sequence[str]:
        """Their ids."""
        return [session.session_id for session in self.sessions]


class Counts(NamedTuple):
    """Counts of arms beside a session's state, as of a version."""

    version: str
    rows: Sequence[ArmCounts]
    """In the order of the arms asked for."""


class ReadSegments(NamedTuple):
    """Some segments of a session, as of a version."""

    version: str
    records: Sequence[bytes | None]
    """In the order of the names asked for; None for a segment that there is not."""
    oldest: Sequence[tuple[int, bytes]]
    """Last slot and name of the segments played least recently, ascending."""


class LogEntry(NamedTuple):
    """An entry of a session's log."""

    position: str
    """Where it stands: milliseconds by the store's clock, a hyphen, and its number within them."""
    data: bytes


class Log(NamedTuple):
    """Part of a session's log, oldest first."""

    about: bytes
    """The session's, empty where nothing was written for lists yet."""
    entries: Sequence[LogEntry]


class WholeSession(NamedTuple):
    """A session as of one version, with all that moves with it."""

    snapshot: Snapshot
    records: Mapping[bytes, bytes]
    counts: Rows
    events: Sequence[tuple[float, Sequence[bytes]]]
    """Digests of event ids, with the Unix seconds at which they are forgotten."""
    segments: Mapping[bytes, tuple[int, bytes]] = {}
    """Last slot and record of each segment, by name."""
