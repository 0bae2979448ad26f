"""The commit that stores a draft: what it looks up, and what it writes."""

from __future__ import annotations

from ..cooperative import LABEL_BYTES, compress_if_large, run_in_thread_if_large
from ..engine.arm_run import ArmRun
from ..engine.run import Run
from ..engine.segment_run import SegmentRun
from ..serialization import records, summary
from ..serialization import records as segment_records
from ..serialization.state import PACKED_COUNTS, SCHEMA_BYTE
from ..store.base import Commit, Written
from .cache.cached_session import CachedSession
from .cache.effective import Effective
from .draft import Draft

FEW_ARMS = 10
"""Up to which the counts of all arms are one value: that has as many bytes as one field of another key, about."""


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
        event_ids=list(draft.event_ids),
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
    is_same = draft.stored is base.stored and has_same_arms
    draft.effective = effective = Effective.of(run, base.effective if is_same else None)
    shown = summary.encode_summary(
        run, version, state[SCHEMA_BYTE], effective=effective.value, mostly_surplus=mostly_surplus
    )
    await draft.fair_yield()
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
        joins_counts=not as_texts and isinstance(run, ArmRun) and run.ledger.by_arm.size <= FEW_ARMS,
        summary=shown,
        about=None if base.is_listed and is_same else await _about(draft, state[SCHEMA_BYTE]),
        entries=entries,
        max_entries=0 if spec.decision_log is None else spec.decision_log.max_entries,
    )


async def _segments_of(draft: Draft, run: SegmentRun) -> dict[bytes, tuple[int, bytes] | None]:
    """Return the segments that a draft changes, as the store keeps them."""
    found = {}
    for name in run.segments.changes:
        found[segment_records.name_of(name)] = segment_records.encode_of_segment_records(run, name)
        await draft.fair_yield()
    return found


async def _specification(draft: Draft) -> bytes:
    """Encode a specification that replaces another."""
    return await run_in_thread_if_large(_label_bytes(draft.run), draft.stored.encode)


async def _about(draft: Draft, schema: int) -> bytes:
    """Encode what lists show and seldom changes, beside a state of a schema."""
    chosen, size = draft.stored.specification.chosen(), _label_bytes(draft.run)
    return await run_in_thread_if_large(size, summary.encode_about, chosen, draft.run, schema)


def _label_bytes(run: Run) -> int:
    return LABEL_BYTES * len(run.arms.names or ()) if isinstance(run, ArmRun) else 0
