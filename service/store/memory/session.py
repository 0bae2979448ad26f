"""What the memory store keeps of one session."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

from ..base import Listed, LogEntry, NewSession, Snapshot, WholeSession, Written
from ..base.counts import Row
from ..redis.keys import EVENT


@dataclass(slots=True)
class MemorySession:
    """A session, with all that belongs to it."""

    version: str
    spec: bytes
    state: bytes
    created_at: float
    expires_at: float | None
    writers: dict[str, str] = field(default_factory=dict)
    """Version that the last commit of each writer made; the writer that is silent longest comes first."""
    seen: dict[bytes, tuple[float, bytes]] = field(default_factory=dict)
    """Kind byte and digest to the Unix seconds it is forgotten at, soonest first, and the answer."""
    records: dict[bytes, bytes] = field(default_factory=dict)
    segments: dict[bytes, tuple[int, bytes]] = field(default_factory=dict)
    """Name to the slot in which a segment was played last, and its record."""
    about: bytes = b""
    summary: bytes = b""
    counts: dict[int, Row] = field(default_factory=dict)
    log: list[tuple[int, int, bytes]] = field(default_factory=list)
    """Milliseconds, number within them, and the entry."""
    samples: dict[int, bytes] = field(default_factory=dict)
    """By place."""

    def snapshot(self) -> Snapshot:
        """Return the session as it is now."""
        return Snapshot(self.version, self.spec, self.state, self.created_at, self.expires_at)

    def listed(self, session_id: str) -> Listed:
        """Return what lists show of it."""
        return Listed(session_id, self.version, self.created_at, self.expires_at, self.about, self.summary)

    def whole(self, now: float) -> WholeSession:
        """Return all that moves with it, but for event ids that are forgotten at ``now`` (Unix seconds)."""
        events: dict[float, list[bytes]] = {}
        for name, (until, _) in self.seen.items():
            if name.startswith(EVENT) and until > now:
                events.setdefault(until, []).append(name[len(EVENT) :])
        beside = (self.records.copy(), self.counts.copy(), sorted(events.items()), self.segments.copy())
        return WholeSession(self.snapshot(), *beside)

    @classmethod
    def restored(cls, whole: WholeSession, new: NewSession) -> MemorySession:
        """Return a session that was exported, without a deadline.

        Parameters
        ----------
        whole : the exported session
        new : its version and what lists show of it; the rest is that of ``whole``
        """
        snapshot = whole.snapshot
        session = cls(new.version, snapshot.spec, snapshot.state, snapshot.created_at, None)
        session.records, session.segments = dict(whole.records), dict(whole.segments)
        session.about, session.summary = new.about, new.summary
        session.counts = dict(whole.counts)
        for until, digests in sorted(whole.events):
            session.seen.update({EVENT + digest: (until, b"") for digest in digests})
        return session

    def write_beside(self, written: Written, now: float) -> None:
        """Write what a commit brings beside the state: records, counts, what lists show, entries of the log.

        Parameters
        ----------
        written : by a commit that succeeds
        now : Unix seconds by the store's clock: the time of the log's entries
        """
        for key, record in written.records.items():
            if record is None:
                self.records.pop(key, None)
            else:
                self.records[key] = record
        for name, segment in written.segments.items():
            if segment is None:
                self.segments.pop(name, None)
            else:
                self.segments[name] = segment
        for arm, row in written.counts.items():
            self.counts[arm] = [a + b for a, b in zip_longest(self.counts.get(arm, ()), row, fillvalue=0)]
        self.summary = written.summary
        if written.about is not None:
            self.about = written.about
        if written.spec is not None:
            self.spec = written.spec
        self._append(written.entries, written.max_entries, int(now * 1000))

    def _append(self, entries: Sequence[bytes], most: int, now_ms: int) -> None:
        if not entries:
            return
        last_ms, number, _ = self.log[-1] if self.log else (now_ms, -1, b"")
        first = number + 1 if last_ms >= now_ms else 0
        ms = max(now_ms, last_ms)
        self.log += [(ms, first + place, data) for place, data in enumerate(entries)]
        del self.log[: max(0, len(self.log) - most)]

    def log_after(self, after: str | None, limit: int) -> Sequence[LogEntry]:
        """Return at most ``limit`` entries of the log, oldest first.

        Parameters
        ----------
        after : position of the entry before the first; None to begin with the oldest
        limit : most entries returned
        """
        start = 0
        if after is not None:
            start = bisect_right(self.log, tuple(map(int, after.split("-"))), key=lambda entry: entry[:2])
        return [LogEntry(f"{ms}-{number}", data) for ms, number, data in self.log[start : start + limit]]
