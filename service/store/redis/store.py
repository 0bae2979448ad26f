"""Sessions in a Redis server: every call one script, every script all or nothing."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping, Sequence

from ..base import (
    Commit,
    Committed,
    Conflict,
    Counts,
    KeysApartError,
    Log,
    NewSession,
    NotFound,
    Outcome,
    PackedRecords,
    Page,
    ReadSegments,
    Snapshot,
    StoreUnavailableError,
    WholeSession,
)
from ..cursors import names_behind
from ..options import StoreOptions
from . import messages, scripts
from .beside.counts import text_fields
from .beside.history import RedisHistory
from .beside.reminders import RedisReminders
from .connection.client import RedisClient, ServerClient
from .keys import ANSWER, Keys
from .listing import Listing
from .script_runner import ScriptRunner
from .transfer import Transfer

log = logging.getLogger(__name__)

RECORDS_AT_ONCE = 500
"""Records looked at in one call: a million, which a session may have, take redis-py longer than a call may take."""
NAMES_AT_ONCE = 1000
"""Names of segments looked at in one call."""


class RedisStore:
    """Sessions on one Redis or Valkey server, 6.2 or newer: ``Store`` says what each call does.

    A call is retried if its connection is lost. That is safe: a commit or creation that was carried out finds its
    version in the store. A deletion is not retried if the server may have received it.

    Parameters
    ----------
    url : redis://, rediss://, unix://, redis+sentinel:// or rediss+sentinel://; its password is never shown
    options : key prefix, limits and timeouts; None for the defaults
    """

    def __init__(self, url: str, options: StoreOptions | None = None) -> None:
        self._options = options or StoreOptions()
        self._client = self._open(url)
        self._keys = Keys.of(self._options.prefix, self._options.dedupe_window_seconds)
        self._runner = ScriptRunner(self._client, self._keys, self._options)
        self._run, self._run_on_session = self._runner.run, self._runner.run_on_session
        self.now = self._runner.clock.now
        self.reminders = RedisReminders(self._runner, self._keys)
        self.history = RedisHistory(self._runner, self._keys)
        self._listing = self._make_listing()
        self._transfer = Transfer(self._runner, self._keys)
        self._warned = False

    def _open(self, url: str) -> RedisClient:
        return ServerClient(url, self._options)

    def _make_listing(self) -> Listing:
        return Listing(self._runner, self._keys)

    async def create(self, session: NewSession) -> Snapshot:
        try:
            return await self._create(session, self._listing.index_beside)
        except KeysApartError:  # The URL is that of one server, which belongs to a cluster.
            self._listing.index_beside = ()
            return await self._create(session, ())

    async def _create(self, session: NewSession, index: Sequence[str]) -> Snapshot:
        digest, answer = session.answer or (b"", b"")
        field = ANSWER + digest if session.answer else b""
        fields = (session.version, session.spec, session.state, session.about, session.summary)
        tail = (*fields, session.idle_ttl_ms or 0, field, answer, session.session_id if index else b"")
        reply = await self._run_on_session(scripts.CREATE, session.session_id, tail, index)
        if not index:
            await self._listing.add([session.session_id])
        if reply[0] == b"OK":
            return messages.snapshot((session.version.encode(), session.spec, session.state, *reply[1]))
        return messages.snapshot(reply[1])

    async def load(self, session_id: str) -> Snapshot | None:
        keys = (self._keys.session(session_id), self._keys.probe(session_id))
        reply = await self._run(scripts.LOAD, keys)
        return messages.snapshot(reply[1]) if reply[0] == b"OK" else None

    async def recall(self, session_id: str, digest: bytes) -> bytes | None:
        reply = await self._run_on_session(scripts.RECALL, session_id, (ANSWER + digest,))
        answer: bytes | None = reply[1]
        return answer

    async def commit(self, commit: Commit) -> Outcome:
        reply = await self._run_on_session(scripts.COMMIT, commit.session_id, messages.commit_args(commit))
        outcome = reply[0]
        if outcome == b"OK":
            return Committed(messages.snapshot(reply[1]) if len(reply) > 1 else None)
        if outcome == b"CONFLICT":
            return Conflict(messages.snapshot(reply[1]))
        return NotFound() if outcome == b"NOT_FOUND" else messages.read_known(reply[1])

    async def read_records(self, session_id: str) -> Mapping[bytes, bytes]:
        keys, cursor = (self._keys.records(session_id), self._keys.probe(session_id)), b"0"
        records = PackedRecords()
        while True:
            _, cursor, items = await self._run(scripts.RECORDS, keys, (cursor, RECORDS_AT_ONCE))
            records.add(items[::2], items[1::2])
            if cursor == b"0":
                return records

    async def read_counts(self, session_id: str, arms: Sequence[int], *, as_texts: bool = False) -> Counts | None:
        keys = (self._keys.session(session_id), self._keys.counts(session_id), self._keys.probe(session_id))
        fields = text_fields(arms) if as_texts else arms
        reply = await self._run(scripts.COUNTS, keys, (len(fields), *fields))
        return messages.read_counts(reply[1], fields, arms) if reply[0] == b"OK" else None

    async def read_segments(self, session_id: str, names: Sequence[bytes], oldest: int = 0) -> ReadSegments | None:
        keys = (self._keys.session(session_id), *self._keys.segments(session_id), self._keys.probe(session_id))
        reply = await self._run(scripts.SEGMENTS, keys, (oldest, len(names), *names))
        return messages.read_segments(reply[1]) if reply[0] == b"OK" else None

    async def segment_names(
        self, session_id: str, after: bytes | None, limit: int, *, backwards: bool = False
    ) -> Sequence[bytes]:
        keys, cursor, names = (self._keys.segments(session_id)[1], self._keys.probe(session_id)), b"0", set[bytes]()
        while True:
            _, cursor, found = await self._run(scripts.SEGMENT_NAMES, keys, (cursor, NAMES_AT_ONCE))
            names = {*names_behind({*names, *found[::2]}, after, limit, backwards=backwards)}
            if cursor == b"0":
                return sorted(names, reverse=backwards)

    async def read_log(self, session_id: str, after: str | None, limit: int) -> Log | None:
        keys = (self._keys.session(session_id), self._keys.log(session_id), self._keys.probe(session_id))
        reply = await self._run(scripts.LOG, keys, (f"({after}" if after else "-", limit))
        return messages.read_log(reply[1]) if reply[0] == b"OK" else None

    async def delete(self, session_id: str) -> bool:
        reply = await self._run_on_session(scripts.DELETE, session_id, ())
        return bool(reply[0] == b"OK")

    async def list(self, cursor: str | None, limit: int, prefix: str = "") -> Page:
        return await self._listing.page(cursor, limit, prefix)

    async def export(self, session_id: str) -> WholeSession | None:
        return await self._transfer.export(session_id)

    async def restore(self, session_id: str, whole: WholeSession, new: NewSession) -> Snapshot | None:
        reply = await self._transfer.restore(session_id, whole, new)
        await self._listing.add([session_id])
        return None if reply[0] == b"OK" else messages.snapshot(reply[1])

    async def count(self, prefix: str, most: int) -> int:
        return await self._listing.count(prefix, most)

    async def ping(self) -> None:
        """Return if the store can commit now; the first time also log the warnings.

        After a commit was refused for want of room, one of its size must fit.
        """
        try:
            async with asyncio.timeout(self._options.ping_seconds):
                room, size = self._runner.room, self._runner.room.refused
                room.check(size)
                await self._run(
                    scripts.PING,
                    (self._keys.server_probe,),
                    (bytes(size),),
                    replica_seconds=self._options.ping_seconds / 2,
                )
                room.on_written(size)
        except TimeoutError:
            raise StoreUnavailableError("the store did not answer in time") from None
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
        return list(dict.fromkeys(danger for info in servers for danger in _dangers(info)))

    async def close(self) -> None:
        await self._client.close()


def _dangers(info: Mapping[str, object]) -> Iterator[str]:
    policy = info.get("maxmemory_policy", "noeviction")
    if policy != "noeviction":
        yield f"maxmemory-policy is {policy}: a full store drops sessions; use noeviction"
    if str(info.get("aof_enabled")) == "0":
        yield "appendonly is off: what was acknowledged may be lost when the store stops"
