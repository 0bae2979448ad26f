"""Sessions in a Redis server: every call one script, every script all or nothing."""

import logging
import math
from collections.abc import Iterable, Mapping, Sequence
from zlib import crc32

from ...errors import StoreUnavailableError
from .. import base
from ..base import Commit, NewSession, ReadSegments, Snapshot, StoreOptions, WholeSession
from . import scripts
from .client import client_of
from .connection import replicas_in
from .listing import Listing
from .scripts import ANSWER, EVENT, SAMPLE
from .transfer import Transfer

log = logging.getLogger(__name__)

SHARDS = 16
"""Number of keys over which the reminders are spread."""
KEPT_MS = 24 * 3600 * 1000
"""Milliseconds after its due time at which a reminder that no worker has handled is deleted."""
COMMITTED = base.Committed()
RECORDS_AT_ONCE = 500
"""Records looked at in one call: a million, which a session may have, take redis-py longer than a call may take."""
NAMES_MS = 60_000
"""Milliseconds for which the names of segments are kept in their order after a first page."""


class RedisStore:
    """Sessions on Redis or Valkey servers, 6.2 or newer: ``Store`` says what each call does.

    A call is retried if its connection is lost. That is safe: a commit or creation that was carried out finds its
    version in the store. A deletion is not retried if the server may have received it.

    Parameters
    ----------
    url : redis://, rediss://, unix://, redis+sentinel://, redis+cluster:// and so on; its password is never shown
    options : None for the defaults
    """

    def __init__(self, url: str, options: StoreOptions | None = None) -> None:
        self._options = options or StoreOptions()
        self._client = client = client_of(url, self._options)
        self._run, self._run_on_session, self._keys = client.run, client.run_on_session, client.keys
        self.now = client.clock.now
        self._listing, self._transfer = Listing(client), Transfer(client)
        self.list, self.count, self.export = self._listing.page, self._listing.count, self._transfer.export
        self._warned = False

    async def create(self, session: NewSession) -> Snapshot:
        try:
            return await self._create(session, self._listing.index_beside)
        except base.KeysApartError:  # The URL is that of one server, which belongs to a cluster.
            self._listing.index_beside = ()
            return await self._create(session, ())

    async def _create(self, session: NewSession, index: Sequence[str]) -> Snapshot:
        digest, answer = session.answer or (b"", b"")
        field = ANSWER + digest if session.answer else b""
        fields = (session.version, session.spec, session.state, session.about)
        tail = (*fields, session.idle_ttl_ms or 0, field, answer, session.session_id if index else b"")
        reply = await self._run_on_session(scripts.CREATE, session.session_id, tail, index)
        if not index:
            await self._listing.add([session.session_id])
        if reply[0] == b"OK":
            return scripts.snapshot((session.version.encode(), session.spec, session.state, *reply[1]))
        return scripts.snapshot(reply[1])

    async def load(self, session_id: str, arms: Sequence[int] = ()) -> Snapshot | None:
        reply = await self._run(scripts.LOAD, self._keys.of(session_id), arms)
        if reply[0] != b"OK":
            return None
        return scripts.snapshot(reply[1])._replace(counts=scripts.rows_of(reply[2]) if arms else ())

    async def recall(self, session_id: str, digest: bytes) -> bytes | None:
        reply = await self._run_on_session(scripts.RECALL, session_id, (ANSWER + digest,))
        answer: bytes | None = reply[1]
        return answer

    async def commit(self, commit: Commit) -> base.Outcome:
        client, session_id, written = self._client, commit.session_id, commit.written
        plain = scripts.plain_call(commit, client.left.get(session_id), self._keys, self.now())
        if plain is not None and await client.run_plain(*plain[:2]):
            client.left[session_id] = plain[2]
            self._options.on_plain_commit()
            return COMMITTED
        args = scripts.commit_args(commit)
        reply = await self._run_on_session(scripts.COMMIT, session_id, args, (), commit.remember_seconds)
        outcome = reply[0]
        if outcome == b"OK":
            _, later, listed, expires_at = reply
            if written is not None and later is None:
                client.leave(session_id, written.version, listed, expires_at is not None)
            return base.Committed(None if later is None else scripts.snapshot(later))
        if outcome == b"CONFLICT":
            return base.Conflict(scripts.snapshot(reply[1]))
        if outcome == b"NOT_FOUND":
            return base.NotFound()
        # KNOWN: fields of the event ids, one behind the other, and their values, or nil where all are empty; then
        # field and answer of each idempotency key.
        joined, values, *items = reply[1]
        width = len(EVENT) + base.DIGEST_BYTES
        events = [joined[at + len(EVENT) : at + width] for at in range(0, len(joined), width)]
        duplicates = dict.fromkeys(events, b"") if values is None else dict(zip(events, values, strict=True))
        answers = {field[1:]: answer for field, answer in zip(items[::2], items[1::2], strict=True)}
        return base.Known(duplicates, answers)

    async def read_records(self, session_id: str) -> Mapping[bytes, bytes]:
        (_, *keys), cursor = self._keys.of(session_id, scripts.RECORDS_KEY), b"0"
        records = dict[bytes, bytes]()
        while True:
            _, cursor, items = await self._run(scripts.RECORDS, keys, (cursor, RECORDS_AT_ONCE))
            records |= zip(items[::2], items[1::2], strict=True)
            if cursor == b"0":
                return records

    async def read_counts(self, session_id: str, arms: Sequence[int]) -> base.Counts | None:
        reply = await self._run(scripts.COUNTS, self._keys.of(session_id), arms)
        return scripts.read_counts(reply[1]) if reply[0] == b"OK" else None

    async def read_segments(self, session_id: str, names: Sequence[bytes], oldest: int = 0) -> ReadSegments | None:
        keys = self._keys.of(session_id, scripts.SEGMENTS_KEY, scripts.PLAYED_KEY)
        reply = await self._run(scripts.SEGMENTS, keys, (oldest, len(names), *names))
        if reply[0] != b"OK":
            return None
        version, records, played = reply[1]
        pairs = [(int(float(slot)), name) for slot, name in zip(played[1::2], played[::2], strict=True)]
        return ReadSegments(scripts.text(version or b""), records, pairs)

    async def segment_names(
        self, session_id: str, after: bytes | None, limit: int, *, backwards: bool = False
    ) -> Sequence[bytes]:
        _, *keys = self._keys.of(session_id, scripts.PLAYED_KEY, scripts.NAMES_KEY)
        start, first, last = after and b"(" + after, *((b"+", b"-") if backwards else (b"-", b"+"))
        args = (start or first, last, limit, int(backwards), int(after is None), NAMES_MS)
        _, names = await self._run(scripts.SEGMENT_NAMES, keys, args)
        return list(names)

    async def read_log(self, session_id: str, after: int, limit: int) -> base.Log | None:
        keys = self._keys.of(session_id, scripts.LOG_KEY)
        reply = await self._run(scripts.LOG, keys, (after + 1, limit), replicated=True)
        if reply[0] != b"OK":
            return None
        ids = [map(int, entry_id.split(b"-")) for entry_id, _ in reply[2]]
        entries = [base.LogEntry(n, at / 1000, each[-1]) for (n, at), (_, each) in zip(ids, reply[2], strict=True)]
        return base.Log(scripts.listed([reply[1]], self._keys)[0], entries)

    async def delete(self, session_id: str) -> bool:
        _, names, _ = self._keys.of(session_id, scripts.NAMES_KEY)
        reply = await self._run_on_session(scripts.DELETE, session_id, (), (names,))
        return bool(reply[0] == b"OK")

    async def restore(self, session_id: str, whole: WholeSession, new: NewSession) -> Snapshot | None:
        reply = await self._transfer.restore(session_id, whole, new)
        await self._listing.add([session_id])
        return None if reply[0] == b"OK" else scripts.snapshot(reply[1])

    # Reminders are in sorted sets; the score is the due time in milliseconds by the server's clock.

    async def remind(self, session_id: str, at: float) -> None:
        await self._run(scripts.REMIND, (self._shard(session_id),), (session_id, round(at * 1000), KEPT_MS))

    async def due(self, limit: int) -> Sequence[str]:
        found: list[str] = []
        for shard in range(SHARDS):
            reply = await self._run(scripts.DUE, (self._keys.due(shard),), (limit,))
            found += [name.decode() for name in reply[1]]
        return found

    async def reschedule(self, session_id: str, again_at: float | None) -> None:
        again = "" if again_at is None else round(again_at * 1000)
        await self._run(scripts.RESCHEDULE, (self._shard(session_id),), (session_id, again, KEPT_MS))

    async def forget_reminder(self, session_id: str) -> None:
        await self._run(scripts.FORGET, (self._shard(session_id),), (session_id,))

    async def acquire_lease(self, worker: str, seconds: float) -> bool:
        reply = await self._run(scripts.ACQUIRE_LEASE, (self._keys.sweeper,), (worker, round(seconds * 1000)))
        return bool(reply[0] == b"OK")

    def _shard(self, session_id: str) -> str:
        return self._keys.due(crc32(session_id.encode()) % SHARDS)

    # Samples are in fields of the session's hash: they end with the session, whatever ends it.

    async def record_sample(self, session_id: str, created_at: float, place: int, sample: bytes) -> int | None:
        args = (repr(created_at), SAMPLE + b"%d" % place, sample)
        reply = await self._run(scripts.RECORD_SAMPLE, self._keys.of(session_id), args)
        return int(reply[1]) if reply[0] == b"OK" else None

    async def read_samples(self, session_id: str) -> Mapping[int, bytes] | None:
        reply = await self._run(scripts.READ_SAMPLES, self._keys.of(session_id), (SAMPLE + b"*",))
        if reply[0] != b"OK":
            return None
        found = zip(reply[1][::2], reply[1][1::2], strict=True)
        return {int(name[1:]): sample for name, sample in found if name[1:].isdigit()}

    async def thin_samples(self, session_id: str, dropped: Iterable[int], left: int) -> None:
        fields = [SAMPLE + b"%d" % place for place in dropped]
        await self._run(scripts.THIN_SAMPLES, self._keys.of(session_id), (left, *fields))

    async def announce(self, worker: str, schemas: Sequence[int], seconds: float) -> Sequence[frozenset[int]]:
        reader = " ".join([worker, *map(str, schemas)])
        reply = await self._run(scripts.ANNOUNCE, (self._keys.schemas,), (reader, round(seconds * 1000)))
        return [frozenset(int(number) for number in each.split()[1:] if number.isdigit()) for each in reply[1]]

    async def token_key(self, new: bytes) -> bytes:
        reply = await self._run(scripts.TOKEN_KEY, self._keys.of_tokens, (new,), replicated=True)
        return bytes(reply[1])

    async def ping(self) -> None:
        """Return if the store can commit now; the first time also log the warnings.

        After a commit was refused for want of room, one of its size must fit.
        """
        room, size = self._client.room, self._client.room.refused
        room.check(size)
        await self._run(scripts.PING, (self._keys.server_probe,), (bytes(size),), replicated=True)
        room.on_written(size)
        if not self._warned:
            self._warned = True
            for warning in await self.warnings():
                log.warning("%s", warning)

    async def warnings(self) -> Sequence[str]:
        """Return which settings of the server may lose sessions, as far as this user may read them."""
        try:
            servers = await self._client.servers()
        except StoreUnavailableError as error:
            return [f"the store's settings can't be read: {error}"]
        found = []
        for info in servers:
            policy = info.get("maxmemory_policy", "noeviction")
            if policy != "noeviction":
                found.append(f"maxmemory-policy is {policy}: a full store drops sessions; use noeviction")
            if info.get("aof_enabled") == "0":
                found.append("appendonly is off: what was acknowledged may be lost when the store stops")
        return list(dict.fromkeys(found))

    async def figures(self) -> Mapping[str, float]:
        return figures_of(await self._client.servers())

    async def close(self) -> None:
        await self._client.close()


def figures_of(servers: Sequence[Mapping[str, str]]) -> Mapping[str, float]:
    """Return how full the fullest of some servers is, and how far replicas are, by their lines of INFO."""
    memory = [(float(info.get("used_memory", 0)), float(info.get("maxmemory", 0))) for info in servers]
    used, most = max(memory, key=lambda each: each[0] / (each[1] or math.inf))
    lines = ("\n".join(map(":".join, info.items())).encode() for info in servers)
    lags = [[lag for lag in replicas_in(each).values() if lag < math.inf] for each in lines]
    last = max([lag for each in lags for lag in each], default=0)
    attached = min(map(len, lags))
    return {"memory_bytes": used, "memory_limit_bytes": most, "replicas": attached, "replica_lag_seconds": last}
