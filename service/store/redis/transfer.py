"""Sessions read and written whole, with all that goes on with them, a part at a time."""

import secrets
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..base import GROUP, ArmCounts, NewSession, WholeSession
from . import scripts
from .client import RedisClient
from .connection import RedisArgument
from .scripts import ANSWER, BESIDE, COUNTED, EVENT, SEEN_KEY, pack_counts

KEPT_MS = 600_000
"""Milliseconds for which copies are kept that nobody deletes."""
FIELDS_AT_ONCE = 500
"""Fields read or written in one call."""
BYTES_AT_ONCE = 1_000_000
"""Bytes of fields after which a call is sent."""
AHEAD = 6
"""Widths of a bucket from its beginning to its deadline."""


class Transfer:
    """Exports and restores sessions."""

    def __init__(self, client: RedisClient) -> None:
        self._run, self._run_on_session = client.run, client.run_on_session
        self._keys, self._now = client.keys, client.clock.now

    async def export(self, session_id: str) -> WholeSession | None:
        """Read a session whole: see ``Store.export``."""
        copies = self._keys.copies(session_id, secrets.token_hex(8))
        reply = await self._run_on_session(scripts.COPY, session_id, (copies, KEPT_MS))
        if reply[0] == b"NOT_FOUND":
            return None
        numbers, deadlines = map(scripts.text, reply[1][::2]), reply[1][1::2]
        buckets = sorted(zip(numbers, (int(deadline) / 1000 for deadline in deadlines), strict=True))
        _, probe = self._keys.of(session_id)
        loaded = await self._run(scripts.LOAD, (f"{copies}session", probe))
        records = await self._hash(f"{copies}slots", probe)
        names = await self._hash(f"{copies}session", probe, COUNTED)
        arms = [int(name[1:]) * GROUP + place for name in names if name[1:].isdigit() for place in range(GROUP)]
        counts: dict[int, ArmCounts] = {}
        for at in range(0, len(arms), FIELDS_AT_ONCE):
            some = arms[at : at + FIELDS_AT_ONCE]
            reply = await self._run(scripts.COUNTS, (f"{copies}session", probe), some)
            rows = scripts.read_counts(reply[1]).rows if reply[0] == b"OK" else [ArmCounts()] * len(some)
            counts |= {arm: row for arm, row in zip(some, rows, strict=True) if any(row)}
        segment_records = await self._hash(f"{copies}segments", probe)
        played = await self._hash(f"{copies}played", probe, command="ZSCAN")
        segments = {name: (int(float(played.get(name, b"0"))), each) for name, each in segment_records.items()}
        seen = [(deadline, await self._hash(f"{copies}seen:{n}", probe, EVENT)) for n, deadline in buckets]
        events = [(until, {field[1:]: value for field, value in each.items()}) for until, each in seen if each]
        parts = ("session", "slots", "segments", "played", *(f"seen:{number}" for number, _ in buckets))
        await self._run(scripts.DROP, [f"{copies}{name}" for name in parts])
        return WholeSession(scripts.snapshot(loaded[1]), records, counts, events, segments)

    async def _hash(self, key: str, probe: str, kind: bytes = b"", command: str = "HSCAN") -> Mapping[bytes, bytes]:
        """Read the fields of a copied hash that begin with a kind byte, or all; or members and scores of a set."""
        found, cursor = dict[bytes, bytes](), b"0"
        while True:
            args = (cursor, FIELDS_AT_ONCE, kind + b"*", command)
            _, cursor, items = await self._run(scripts.PART, (key, probe), args)
            found.update(zip(items[::2], items[1::2], strict=True))
            if cursor == b"0":
                return found

    async def restore(self, session_id: str, whole: WholeSession, new: NewSession) -> Sequence[Any]:
        """Create a session as ``Store.restore`` says.

        Returns
        -------
        The script's outcome: OK, or another and the fields of the session that has this id.
        """
        copies, width = self._keys.copies(session_id, secrets.token_hex(8)), self._keys.width(new.remember_seconds)
        present, buckets = int(self._now() * 1000 // width), self._buckets(whole.events, width)
        parts: dict[str, Iterable[tuple[bytes, bytes]]] = {
            "session": pack_counts(whole.counts).items(),
            "slots": whole.records.items(),
            "segments": ((name, record) for name, (_, record) in whole.segments.items()),
            "played": ((b"%d" % slot, name) for name, (slot, _) in whole.segments.items()),
        }
        session, *beside, probe = self._keys.of(session_id, *BESIDE)
        keys = [session, *beside, *(copies + name for name in parts)]
        parts |= {f"seen:{n}": ((EVENT + each, value) for each, value in ids.items()) for n, ids in buckets.items()}
        for name, items in parts.items():
            await self._put(copies + name, items, "ZADD" if name == "played" else "HSET")
        if new.answer is not None:
            key, answer = new.answer
            buckets.setdefault(present, {})
            await self._put(f"{copies}seen:{present}", [(ANSWER + key, answer)])
        keys += [key for n in buckets for key in (f"{copies}seen:{n}", f"{session}{SEEN_KEY}{n}")]
        deadlines = [(number + AHEAD) * width for number in buckets]
        listed = " ".join(f"{number}={deadline}" for number, deadline in zip(buckets, deadlines, strict=True))
        created_at = f"{whole.snapshot.created_at:.6f}"
        fields = (new.version, whole.snapshot.spec, whole.snapshot.state, created_at, new.about)
        tail: Sequence[RedisArgument] = (*fields, new.idle_ttl_ms or 0, listed, *deadlines)
        return await self._run(scripts.RESTORE, [*keys, probe], tail)

    def _buckets(
        self, events: Iterable[tuple[float, Mapping[bytes, bytes]]], width: int
    ) -> dict[int, dict[bytes, bytes]]:
        """Return values by digest, by the number of the bucket that is forgotten with them, or the present one."""
        now_ms, buckets = self._now() * 1000, dict[int, dict[bytes, bytes]]()
        for deadline, values in events:
            if deadline * 1000 > now_ms:
                number = min(int(now_ms // width), -int(-deadline * 1000 // width) - AHEAD)
                buckets.setdefault(number, {}).update(values)
        return {number: values for number, values in buckets.items() if values}

    async def _put(self, key: str, items: Iterable[tuple[bytes, bytes]], command: str = "HSET") -> None:
        part, size = list[RedisArgument](), 0
        for field, value in items:
            size += len(field) + len(value)
            if part and (size > BYTES_AT_ONCE or len(part) == 2 * FIELDS_AT_ONCE):
                await self._run(scripts.PUT, (key,), (KEPT_MS, len(part), command, *part))
                part, size = [], len(field) + len(value)
            part += (field, value)
        if part:
            await self._run(scripts.PUT, (key,), (KEPT_MS, len(part), command, *part))
