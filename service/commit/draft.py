"""A session's next version while a batch is applied to it, and the commit that stores it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ..cooperative.answer_body import Body, compress_if_large, unpack
from ..cooperative.fair_yield import FairYield
from ..cooperative.offload import LABEL_BYTES, run_in_thread_if_large
from ..engine.arm_run import ArmRun
from ..engine.run import Run
from ..engine.segment_run import SegmentRun
from ..errors import IdempotencyConflictError, OlderSchemaError
from ..models.idempotency import Idempotency
from ..models.stored import Stored
from ..serialization import records, segment_records, summary
from ..serialization.journal import Journal
from ..serialization.state import PACKED_COUNTS, SCHEMA_BYTE
from ..store.base import DIGEST_BYTES, Commit, Written
from .cache.cached_session import CachedSession, Effective

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
    due_settled: bool = True
    """Whether all due decisions are settled; if not, no request has been applied yet."""
    shows_version: bool = False
    """Whether an answer still has ``VERSION`` in it."""
    counts: dict[str, int] = field(default_factory=dict)
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


async def commit_of(
    draft: Draft, session_id: str, base: CachedSession, writer: str, version: str, *, mostly_surplus: bool
) -> Commit:
    """Make the commit that moves a session from ``base`` to a draft of it.

    Where nothing changed it writes nothing, and only confirms that ``base`` is still the session's version.

    Parameters
    ----------
    draft : what the batch made of the session; its answers get the new version
    session_id : of the session
    base : the version that the draft is a copy of
    writer : this worker
    version : the new one
    mostly_surplus : whether most of the session's latest events were surplus, for lists
    """
    spec = base.stored.specification
    writes = draft.changed or bool(draft.answers) or (spec.decision_log is not None and bool(draft.journal))
    if draft.shows_version:
        draft.show_version(version if writes else base.version)
        await draft.fair_yield()
    answers = {}
    for key, (body, packed) in draft.answers.items():
        answers[key] = body + await compress_if_large(packed)
    return Commit(
        session_id=session_id,
        writer=writer,
        expected=base.version,
        written=await _written(draft, base, version, mostly_surplus) if writes else None,
        checksum=base.checksum,
        events=list(draft.event_ids),
        event_lookups=list(draft.asked_events - draft.known.duplicates - draft.event_ids.keys()),
        lookups=list(draft.asked_keys - draft.known.answers.keys()),
        answers=answers,
    )


async def _written(draft: Draft, base: CachedSession, version: str, mostly_surplus: bool) -> Written:
    run, spec, after = draft.run, base.stored.specification, draft.stored.specification
    has_same_arms = getattr(run, "arms", None) is getattr(base.run, "arms", None)
    if has_same_arms:
        state = CachedSession.encode(run, draft.write_schema)
    else:
        # Arms are encoded again, of which there may be many.
        size = LABEL_BYTES * run.arms.size if isinstance(run, ArmRun) else 0
        state = await run_in_thread_if_large(size, CachedSession.encode, run, draft.write_schema)
    draft.effective = effective = Effective.of(run, base.effective)
    shown = summary.encode_summary(run, version, effective=effective.value, mostly_surplus=mostly_surplus)
    await draft.fair_yield()
    is_known = base.is_listed and draft.stored is base.stored and has_same_arms
    losses, as_texts = base.run.params.losses, draft.write_schema < PACKED_COUNTS
    default = None if spec.expiry is None else spec.expiry.default(losses.word)
    entries = []
    if spec.decision_log is not None:
        entries = await draft.journal.entries(default, losses.word, draft.fair_yield)
    extends = draft.extends_deadline and after.idle_ttl_seconds is not None
    return Written(
        version,
        state,
        idle_ttl_ms=after.idle_ttl_ms if extends else None,
        permanent=after.idle_ttl_seconds is None and spec.idle_ttl_seconds is not None,
        spec=None if draft.stored is base.stored else await _specification(draft),
        records={**draft.dropped, **records.encode(run, state[SCHEMA_BYTE])},
        segments=await _segments_of(draft, run) if isinstance(run, SegmentRun) else {},
        counts=await draft.journal.counts(losses, default, draft.fair_yield, acts=as_texts),
        counts_as_texts=as_texts,
        summary=shown,
        about=None if is_known else await _about(draft),
        entries=entries,
        max_entries=0 if spec.decision_log is None else spec.decision_log.max_entries,
    )


async def _segments_of(draft: Draft, run: SegmentRun) -> dict[bytes, tuple[int, bytes] | None]:
    """Return the segments that a draft changes, as the store keeps them."""
    found = {}
    for name in run.segments.changes:
        found[segment_records.name_of(name)] = segment_records.encode(run, name)
        await draft.fair_yield()
    return found


async def _specification(draft: Draft) -> bytes:
    """Encode a specification that replaces another."""
    return await run_in_thread_if_large(_label_bytes(draft.run), draft.stored.encode)


async def _about(draft: Draft) -> bytes:
    """Encode what lists show and seldom changes."""
    chosen = draft.stored.specification.chosen()
    return await run_in_thread_if_large(_label_bytes(draft.run), summary.encode_about, chosen, draft.run)


def _label_bytes(run: Run) -> int:
    return LABEL_BYTES * len(run.arms.names or ()) if isinstance(run, ArmRun) else 0
