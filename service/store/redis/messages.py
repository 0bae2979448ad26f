"""Arguments and replies of the scripts as the contract's types."""

from __future__ import annotations

from collections.abc import Sequence

from ..base import DIGEST_BYTES, Commit, Known, Snapshot
from .connection.roundtrip import RedisArgument
from .keys import ANSWER, EVENT

FIELD_BYTES = len(EVENT) + DIGEST_BYTES
"""Length of a field that stands for an event id: its kind byte and the digest."""


def text(data: bytes) -> str:
    """Decode a text; bytes that somebody changed by hand may not be UTF-8."""
    return data.decode("utf-8", "replace")


def snapshot(fields: Sequence[bytes | None]) -> Snapshot:
    """Read the fields of a session; damaged ones give an empty state, which no codec accepts."""
    version, spec, state, created_at, expires_at = fields
    try:
        times = float(created_at or b""), int(expires_at) / 1000 if expires_at is not None else None
    except ValueError:
        return Snapshot(text(version or b""), spec or b"", b"", 0.0, None)
    return Snapshot(text(version or b""), spec or b"", state or b"", *times)


def commit_args(commit: Commit) -> Sequence[RedisArgument]:
    """Make the arguments of ``commit.lua``, except the first two, which say which buckets the keys are."""
    events = b"".join([EVENT + digest for digest in commit.events])
    lookups = b"".join(
        [EVENT + digest for digest in commit.event_lookups] + [ANSWER + digest for digest in commit.lookups]
    )
    answers = [item for digest, answer in commit.answers.items() for item in (ANSWER + digest, answer)]
    records = [item for key, value in commit.records.items() if value is not None for item in (key, value)]
    dropped = [key for key, value in commit.records.items() if value is None]
    head = (
        commit.writer,
        commit.expected,
        commit.version or "",
        commit.state,
        commit.checksum,
        commit.idle_ttl_ms or 0,
    )
    counts = (len(answers), len(records), len(dropped))
    return (*head, events + lookups, len(events), *counts, *answers, *records, *dropped)


def read_known(reply: Sequence[bytes]) -> Known:
    """Read what the store remembers, from a KNOWN reply."""
    events, *items = reply
    duplicates = frozenset(events[at + 1 : at + FIELD_BYTES] for at in range(0, len(events), FIELD_BYTES))
    return Known(duplicates, {field[1:]: answer for field, answer in zip(items[::2], items[1::2], strict=True)})
