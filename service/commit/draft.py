"""A session's next version while a batch is applied to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ..cooperative import Body, FairYield, unpack
from ..engine.run import Run
from ..errors import IdempotencyConflictError, OlderSchemaError
from ..models.events import Idempotency
from ..models.stored import Stored
from ..store.base import DIGEST_BYTES
from .cache.effective import Effective
from .journal import Journal

VERSION = "\0"
"""Stands in an answer for the version its commit makes; no label or other text of an answer has this character."""
_VERSION_JSON = b"\\u0000"


class Answer(NamedTuple):
    """The body of a success; ``replayed`` where it was stored with an idempotency key before."""

    body: Body
    replayed: bool = False


@dataclass(slots=True)
class KnownKeys:
    """What the store has been found to remember of a batch; all of its drafts share it."""

    duplicates: set[bytes] = field(default_factory=set)
    """Digests of event ids."""
    answers: dict[bytes, bytes] = field(default_factory=dict)
    """Digest of an idempotency key to what is stored under it."""


@dataclass(slots=True)
class Draft:
    """The next version of a session: a copy of a version's run, and what a batch has done to it so far."""

    run: Run
    known: KnownKeys
    stored: Stored
    """The session's specification."""
    write_schema: int
    """The newest schema that a state may be written in."""
    fair_yield: FairYield = field(default_factory=FairYield)
    """Awaited within long work, so that other requests run in between."""
    results: list[Answer | Exception] = field(default_factory=list)
    """For each request of the batch its answer, or the error that refused it."""
    event_ids: dict[bytes, None] = field(default_factory=dict)
    """Digests of event ids that count from this version on."""
    answers: dict[bytes, tuple[bytes, bytes]] = field(default_factory=dict)
    """Digest of an idempotency key to the digest of the request's body and the answer, as ``pack`` makes it."""
    asked_events: set[bytes] = field(default_factory=set)
    asked_keys: set[bytes] = field(default_factory=set)
    """Digests that a request was judged by: the store must confirm what it knows of them."""
    journal: Journal = field(default_factory=Journal)
    """What the batch has done so far."""
    changed: bool = False
    extends_deadline: bool = False
    """Whether a request succeeded that extends the idle deadline."""
    due_expired: bool = True
    """Whether all due decisions have expired; if not, no request has been applied yet."""
    shows_version: bool = False
    """Whether an answer still has ``VERSION`` in it."""
    outcomes: dict[str, int] = field(default_factory=dict)
    """Number of events by what became of them."""
    delays: list[float] = field(default_factory=list)
    """Seconds from act to event, where known."""
    dropped: dict[bytes, None] = field(default_factory=dict)
    """Keys of records to drop unless they are written."""
    effective: Effective | None = None
    """What lists show of the distribution."""

    def check_schema(self, field: str, schema: int = 2) -> None:
        """Refuse what states of the schema that may be written can't hold.

        Parameters
        ----------
        field : of the request, named in the error
        schema : the first one that can hold what the field asks for

        Raises
        ------
        OlderSchemaError
            where states of this schema may not be written yet.
        """
        if self.write_schema < schema:
            raise OlderSchemaError.of(field, self.write_schema)

    def is_duplicate(self, event_id: bytes) -> bool:
        """Return whether an event id, by its digest, counts already."""
        self.asked_events.add(event_id)
        return event_id in self.known.duplicates or event_id in self.event_ids

    def any_duplicate(self, event_ids: Sequence[bytes]) -> bool:
        """Return whether one of these event ids, by their digests, counts already, or is there twice."""
        self.asked_events.update(event_ids)
        new = self.known.duplicates.isdisjoint(event_ids) and self.event_ids.keys().isdisjoint(event_ids)
        return not new or len(set(event_ids)) < len(event_ids)

    def stored_answer(self, key: Idempotency) -> Answer | None:
        """Return the answer that an idempotency key got before, in this batch or an earlier one; None if none.

        Raises
        ------
        IdempotencyConflictError
            where the key came with another body then.
        """
        self.asked_keys.add(key.key)
        if (stored := self.known.answers.get(key.key)) is not None:
            body, packed = unpack_answer(stored)
        elif key.key in self.answers:
            body, packed = self.answers[key.key]
        else:
            return None
        if body != key.body:
            raise IdempotencyConflictError
        return Answer(unpack(packed), replayed=True)

    def show_version(self, version: str) -> None:
        """Put the version in force after the commit into the answers."""
        text = version.encode()
        for place, result in enumerate(self.results):
            if isinstance(result, Answer) and isinstance(result.body, bytes):
                self.results[place] = result._replace(body=result.body.replace(_VERSION_JSON, text))
        for key, (body, packed) in self.answers.items():
            if isinstance(unpack(packed), bytes):
                self.answers[key] = (body, packed.replace(_VERSION_JSON, text))


def unpack_answer(stored: bytes) -> tuple[bytes, bytes]:
    """Return the digest of the body an idempotency key came with, and the answer it got."""
    return stored[:DIGEST_BYTES], stored[DIGEST_BYTES:]
