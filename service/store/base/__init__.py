"""What a store promises.

**Atomic.** A commit happens wholly or not at all; a session never mixes two versions.
**Ordered.** A commit is applied only to the version it was computed from.
**Once.** Sending the same commit again never applies it again: the session remembers, for each writer, the
version its last commit made, so a writer that lost a reply may simply send the commit again, also after others
have committed.
**Remembered.** Event ids and stored answers are kept for the dedupe window, and deleted with the session.
**Counted.** Increments of counts and entries of the log are part of their commit: once, or not at all.
**Expiring.** All keys of a session share one deadline by the store's clock, or have none.

A writer (one worker incarnation) has one commit in flight per session at a time.
"""

from __future__ import annotations

from .commits import Commit, Committed, Conflict, Known, NewSession, NotFound, Outcome, Written
from .contract import History, Reminders, Store
from .counts import ArmCounts
from .failures import NO_CONNECTION, KeysApartError, StoreFullError, StoreUnavailableError, WrongTypeError
from .packed_records import PackedPart, PackedRecords
from .reads import Counts, Listed, Log, LogEntry, Page, ReadSegments, Snapshot, WholeSession

__all__ = [
    "DIGEST_BYTES",
    "NO_CONNECTION",
    "ArmCounts",
    "Commit",
    "Committed",
    "Conflict",
    "Counts",
    "History",
    "KeysApartError",
    "Known",
    "Listed",
    "Log",
    "LogEntry",
    "NewSession",
    "NotFound",
    "Outcome",
    "PackedPart",
    "PackedRecords",
    "Page",
    "ReadSegments",
    "Reminders",
    "Snapshot",
    "Store",
    "StoreFullError",
    "StoreUnavailableError",
    "WholeSession",
    "Written",
    "WrongTypeError",
]

DIGEST_BYTES = 16
"""Size of an event-id or idempotency-key digest as stored."""
