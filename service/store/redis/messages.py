"""How the scripts take a commit and tell what they found."""

from __future__ import annotations

from collections.abc import Sequence

from ..base import DIGEST_BYTES, Commit, Known, Snapshot
from .connection.roundtrip import RedisArgument
from .keys import ANSWER, EVENT

FIELD_BYTES = len(EVENT) + DIGEST_BYTES
"""Of a field that stands for an event id: its kind and the digest."""


def text(data: bytes) -> str:
    """A text, also where somebody has put other bytes there."""
    return data.decode("utf-8", "replace")


def snapshot(fields: Sequence[bytes | None]) -> Snapshot:
    """A session's fields; damaged ones give an empty state, which no codec accepts."""
    version, spec, state, created_at, expires_at = fields
    try:
        times = float(created_at or b""), int(expires_at) / 1000 if expires_at is not None else None
    except ValueError:
        return Snapshot(text(version or b""), spec or b"", b"", 0.0, None)
    return Snapshot(text(version or b""), spec or b"", state or b"", *times)


def commit_args(commit: Commit) -> Sequence[RedisArgument]:
    """What ``commit.lua`` takes, but for the first two, which date the keys."""
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
        commit.digest,
        commit.idle_ttl_ms or 0,
    )
    counts = (len(answers), len(records), len(dropped))
    return (*head, events + lookups, len(events), *counts, *answers, *records, *dropped)


def known(told: Sequence[bytes]) -> Known:
    """What the store knew before."""
    events, *items = told
    duplicates = frozenset(events[at + 1 : at + FIELD_BYTES] for at in range(0, len(events), FIELD_BYTES))
    return Known(duplicates, {field[1:]: answer for field, answer in zip(items[::2], items[1::2], strict=True)})
