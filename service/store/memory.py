"""Sessions in this process, for trials and tests: the whole contract, but nothing outlives the process."""

import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from . import base
from .base import Commit, NewSession, ReadSegments, Snapshot, StoreOptions, WholeSession, Written
from .redis.client import StoreClock
from .redis.scripts import ANSWER, EVENT

# -- What the memory store keeps of one session.


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
    """Kind byte and digest to the Unix seconds it is forgotten at, mostly soonest first, and value or answer."""
    records: dict[bytes, bytes] = field(default_factory=dict)
    segments: dict[bytes, tuple[int, bytes]] = field(default_factory=dict)
    """Name to the slot in which a segment was played last, and its record."""
    about: bytes = b""
    counts: dict[int, list[float]] = field(default_factory=dict)
    """Vectors by group."""
    log: list[base.LogEntry] = field(default_factory=list)
    samples: dict[int, bytes] = field(default_factory=dict)
    """By place."""

    def has_expired(self, now: float) -> bool:
        """Return whether its idle deadline has passed at ``now`` (Unix seconds)."""
        return self.expires_at is not None and self.expires_at <= now

    def snapshot(self) -> Snapshot:
        """Return the session as it is now."""
        return Snapshot(self.version, self.spec, self.state, self.created_at, self.expires_at)

    def listed(self, session_id: str) -> base.Listed:
        """Return what lists show of it."""
        head = base.head_of(self.state)
        return base.Listed(session_id, self.version, self.created_at, self.expires_at, self.about, head)

    def whole(self, now: float) -> WholeSession:
        """Return all that moves with it, but for event ids that are forgotten at ``now`` (Unix seconds)."""
        events: dict[float, dict[bytes, bytes]] = {}
        for name, (until, value) in self.seen.items():
            if name.startswith(EVENT) and until > now:
                events.setdefault(until, {})[name[len(EVENT) :]] = value
        arms = (base.GROUP * group + place for group in self.counts for place in range(base.GROUP))
        counts = {arm: row for arm in arms if any(row := base.counts_of(arm, self.counts))}
        beside = (self.records.copy(), counts, sorted(events.items()), self.segments.copy())
        return WholeSession(self.snapshot(), *beside)

    @classmethod
    def restored(cls, whole: WholeSession, new: NewSession) -> Self:
        """Return a session that was exported, without a deadline.

        Parameters
        ----------
        whole : the exported session
        new : its version and what lists show of it; the rest is that of ``whole``
        """
        snapshot = whole.snapshot
        session = cls(new.version, snapshot.spec, snapshot.state, snapshot.created_at, None, about=new.about)
        session.records, session.segments = dict(whole.records), dict(whole.segments)
        for arm, row in whole.counts.items():
            vector = session.counts.setdefault(arm // base.GROUP, [0] * base.VECTOR)
            vector[arm % base.GROUP :: base.GROUP] = base.ArmCounts(*row)
        for until, values in sorted(whole.events, key=lambda each: each[0]):
            session.seen.update({EVENT + digest: (until, value) for digest, value in values.items()})
        return session

    def write_beside(self, written: Written, now: float) -> None:
        """Write what a commit brings beside the state: records, counts, what lists show, entries of the log.

        Parameters
        ----------
        written : by a commit that succeeds
        now : Unix seconds by the store's clock: the time of the log's entries
        """
        changes: Any = ((self.records, written.records), (self.segments, written.segments))
        for kept, changed in changes:
            kept.update(changed)
            for name in [name for name, value in changed.items() if value is None]:
                del kept[name]
        base.add_counts(self.counts, written.counts)
        if written.about is not None:
            self.about = written.about
        if written.spec is not None:
            self.spec = written.spec
        if written.entries:
            at = max(int(now * 1000) / 1000, self.log[-1].at if self.log else 0)
            self.log += [base.LogEntry(n, at, data) for n, data in enumerate(written.entries, written.position)]
            del self.log[: max(0, len(self.log) - written.max_entries)]


# -- Sessions in this process, for trials and tests: the whole contract, but nothing outlives the process.

MAX_WRITERS = 128


class MemoryStore:
    """The contract ``Store`` in one process. No call waits for anything, so each is atomic on the event loop.

    Parameters
    ----------
    options : of these the dedupe window; None for the default
    clock : returns Unix seconds; None for the clock of this machine
    """

    def __init__(self, options: StoreOptions | None = None, clock: Callable[[], float] | None = None) -> None:
        self._window = (options or StoreOptions()).dedupe_window_seconds
        self._clock = clock or StoreClock().now
        # Each call reads the clock once, so that all its times agree, as they do in Redis.
        self._latest = float("-inf")
        self._sessions: dict[str, MemorySession] = {}
        self._notes: dict[str, float] = {}
        """Session to the Unix seconds at which it has decisions due."""
        self._token_key = b""
        self._readers: dict[str, tuple[float, frozenset[int]]] = {}
        """Name of a worker to the Unix seconds until which it counts, and the schemas that it reads."""

    async def create(self, session: NewSession) -> Snapshot:
        if (existing := self._session(session.session_id)) is not None:
            return existing.snapshot()
        created = MemorySession(session.version, session.spec, session.state, self._latest, None)
        created.about = session.about
        self._begin(session, created)
        return created.snapshot()

    async def load(self, session_id: str, arms: Sequence[int] = ()) -> Snapshot | None:
        if (session := self._session(session_id)) is None:
            return None
        return session.snapshot()._replace(counts=tuple(base.counts_of(arm, session.counts) for arm in arms))

    async def recall(self, session_id: str, digest: bytes) -> bytes | None:
        session = self._session(session_id)
        return None if session is None else self._answers(session, [digest]).get(digest)

    async def commit(self, commit: Commit) -> base.Outcome:
        if (session := self._session(commit.session_id)) is None:
            return base.NotFound()
        written = commit.written
        if written is not None and session.writers.get(commit.writer) == written.version:
            return base.Committed(None if session.version == written.version else session.snapshot())
        if session.version != commit.expected or not session.state.endswith(commit.checksum):
            return base.Conflict(session.snapshot())
        answers, seen = self._answers(session, commit.lookups), session.seen
        asked = (*commit.event_ids, *commit.event_lookups)
        duplicates = {digest: seen[EVENT + digest][1] for digest in asked if EVENT + digest in seen}
        if duplicates or answers:
            return base.Known(duplicates, answers)
        if written is not None:
            self._write(session, commit, written)
        return base.Committed()

    async def read_records(self, session_id: str) -> Mapping[bytes, bytes]:
        return {} if (session := self._session(session_id)) is None else session.records.copy()

    async def read_counts(self, session_id: str, arms: Sequence[int]) -> base.Counts | None:
        if (session := self._session(session_id)) is None:
            return None
        return base.Counts(session.version, [base.counts_of(arm, session.counts) for arm in arms])

    async def read_segments(self, session_id: str, names: Sequence[bytes], oldest: int = 0) -> ReadSegments | None:
        if (session := self._session(session_id)) is None:
            return None
        kept = session.segments
        played = ((slot, name) for name, (slot, _) in kept.items())
        records = [kept[name][1] if name in kept else None for name in names]
        return ReadSegments(session.version, records, heapq.nsmallest(oldest, played) if oldest else ())

    async def segment_names(
        self, session_id: str, after: bytes | None, limit: int, *, backwards: bool = False
    ) -> Sequence[bytes]:
        if (session := self._session(session_id)) is None:
            return []
        names = (
            name for name in session.segments if after is None or (name < after if backwards else name > after)
        )
        return heapq.nlargest(limit, names) if backwards else heapq.nsmallest(limit, names)

    async def read_log(self, session_id: str, after: int, limit: int) -> base.Log | None:
        if (session := self._session(session_id)) is None:
            return None
        start = max(0, after + 1 - session.log[0].position) if session.log else 0
        return base.Log(session.listed(session_id), session.log[start : start + limit])

    async def delete(self, session_id: str) -> bool:
        return self._session(session_id) is not None and self._sessions.pop(session_id) is not None

    async def list(self, cursor: str | None, limit: int, prefix: str = "") -> base.Page:
        after = base.after_of(cursor, prefix)
        self._drop_due()
        ids = heapq.nsmallest(limit + 1, (one for one in self._sessions if one > after and one.startswith(prefix)))
        listed = [self._sessions[one].listed(one) for one in ids[:limit]]
        return base.Page(listed, base.cursor_after(ids[limit - 1]) if len(ids) > limit else None)

    async def export(self, session_id: str) -> WholeSession | None:
        return None if (session := self._session(session_id)) is None else session.whole(self._latest)

    async def restore(self, session_id: str, whole: WholeSession, new: NewSession) -> Snapshot | None:
        if (existing := self._session(session_id)) is not None:
            return None if existing.version == new.version else existing.snapshot()
        self._begin(new, MemorySession.restored(whole, new))
        return None

    def _begin(self, new: NewSession, created: MemorySession) -> None:
        self._sessions[new.session_id] = created
        if new.idle_ttl_ms is not None:
            created.expires_at = self._latest + new.idle_ttl_ms / 1000
        if new.answer is not None:
            digest, answer = new.answer
            self._remember(created, {ANSWER + digest: answer}, self._latest + self._window)

    async def count(self, prefix: str, most: int) -> int:
        self._drop_due()
        return min(most, sum(1 for one in self._sessions if one.startswith(prefix)))

    async def remind(self, session_id: str, at: float) -> None:
        self._notes[session_id] = min(at, self._notes.get(session_id, at))

    async def due(self, limit: int) -> Sequence[str]:
        self._drop_due()
        return [session_id for session_id, at in self._notes.items() if at <= self.now()][:limit]

    async def reschedule(self, session_id: str, again_at: float | None) -> None:
        if self._notes.get(session_id, float("inf")) <= self.now():
            del self._notes[session_id]
            if again_at is not None:
                await self.remind(session_id, again_at)

    async def forget_reminder(self, session_id: str) -> None:
        self._notes.pop(session_id, None)

    async def acquire_lease(self, worker: str, seconds: float) -> bool:  # noqa: ARG002 - nobody else is there
        return True

    async def record_sample(self, session_id: str, created_at: float, place: int, sample: bytes) -> int | None:
        if (session := self._session(session_id)) is None or session.created_at != created_at:
            return None
        session.samples[place] = sample
        return len(session.samples)

    async def read_samples(self, session_id: str) -> Mapping[int, bytes] | None:
        return None if (session := self._session(session_id)) is None else session.samples.copy()

    async def thin_samples(self, session_id: str, dropped: Iterable[int], left: int) -> None:  # noqa: ARG002 - it counts itself
        if (session := self._session(session_id)) is not None:
            for place in dropped:
                session.samples.pop(place, None)

    async def announce(self, worker: str, schemas: Sequence[int], seconds: float) -> Sequence[frozenset[int]]:
        now = self.now()
        self._readers[worker] = (now + seconds, frozenset(schemas))
        self._readers = {name: read for name, read in self._readers.items() if read[0] > now}
        return [read for _, read in self._readers.values()]

    async def token_key(self, new: bytes) -> bytes:
        self._token_key = self._token_key or new
        return self._token_key

    async def ping(self) -> None:
        """Return: this store can always commit."""

    def now(self) -> float:
        self._latest = max(self._latest, self._clock())
        return self._latest

    async def figures(self) -> Mapping[str, float]:
        return {}

    async def close(self) -> None:
        """Keep nothing."""
        self._sessions.clear()

    def _session(self, session_id: str) -> MemorySession | None:
        now, session = self.now(), self._sessions.get(session_id)
        if session is None or not session.has_expired(now):
            return session
        del self._sessions[session_id]
        return None

    def _drop_due(self) -> None:
        """Drop expired sessions; whoever looks at all of them does so, and so does the sweeper."""
        now = self.now()
        for session_id in [one for one, session in self._sessions.items() if session.has_expired(now)]:
            del self._sessions[session_id]

    def _write(self, session: MemorySession, commit: Commit, written: Written) -> None:
        session.version, session.state = written.version, written.state
        session.writers.pop(commit.writer, None)
        session.writers[commit.writer] = written.version
        if len(session.writers) > MAX_WRITERS:
            del session.writers[next(iter(session.writers))]
        # A quarter longer than asked, as in Redis: what came in time may be committed a moment later.
        until, seen = self._latest + max(self._window, 1.25 * commit.remember_seconds), session.seen
        if commit.prolongs:
            seen.update({name: (max(until, before), value) for name, (before, value) in seen.items()})
        # None of these is remembered: a commit with an event id that counts already writes nothing.
        seen |= dict.fromkeys([EVENT + digest for digest in commit.event_ids], (until, b""))
        for digest, value in commit.values.items():
            seen[EVENT + digest] = (seen.get(EVENT + digest, (until,))[0], value)
        self._remember(session, {ANSWER + digest: answer for digest, answer in commit.answers.items()}, until)
        session.write_beside(written, self._latest)
        if written.permanent:
            session.expires_at = None
        if written.idle_ttl_ms is not None:
            session.expires_at = max(self._latest + written.idle_ttl_ms / 1000, written.least_deadline_ms / 1000)

    def _remember(self, session: MemorySession, fields: Mapping[bytes, bytes], until: float) -> None:
        for name, answer in fields.items():
            session.seen.pop(name, None)
            session.seen[name] = (until, answer)

    def _answers(self, session: MemorySession, digests: Sequence[bytes]) -> Mapping[bytes, bytes]:
        """Drop what is no longer remembered, and return the stored answers to these idempotency keys."""
        while session.seen:
            oldest = next(iter(session.seen))
            if session.seen[oldest][0] > self._latest:
                break
            del session.seen[oldest]
        return {digest: session.seen[ANSWER + digest][1] for digest in digests if ANSWER + digest in session.seen}
