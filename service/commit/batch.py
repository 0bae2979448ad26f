"""A batch applied to a draft: request by request, in order; one that is refused fails alone."""

from __future__ import annotations

import logging
import math
import time
from collections import Counter
from collections.abc import Sequence

from ..cooperative import BackgroundYield, pack, unpack
from ..engine.arm_run import ArmRun
from ..engine.run import Run, expire_oldest
from ..errors import ClientGoneError, InternalError, ServiceError
from .cache.cached_session import CachedSession
from .draft import Answer, Draft, KnownKeys
from .journal import Ended, Journal
from .operation import Operation

EXPIRY_SECONDS = 0.05
"""Seconds of expiry in one commit, pauses included; what is due beyond it expires in further commits first."""

log = logging.getLogger(__name__)


async def expire_due(run: Run, journal: Journal, seconds: float = math.inf) -> bool:
    """Expire due decisions, a bucket at a time.

    Parameters
    ----------
    run : the session's, after ``advance`` to the present; it is changed
    journal : notes what expires
    seconds : about how long; at least one bucket is expired

    Returns
    -------
    False where some are left.
    """
    until, background_yield = time.perf_counter() + seconds, BackgroundYield()
    while run.due:
        expired = Counter[int]()
        for arm, count in expire_oldest(run):
            expired[arm] += count
            await background_yield()
        if isinstance(run, ArmRun):
            defaulted = run.params.expiry is not None and run.params.expiry.loss is not None
            journal += [Ended(arm, "expired", decisions=n, defaulted=defaulted) for arm, n in expired.items()]
        if time.perf_counter() >= until:
            return not run.due
    return True


async def apply_batch(
    base: CachedSession,
    batch: Sequence[Operation],
    known: KnownKeys,
    now: float,
    write_schema: int,
    *,
    undoes: bool = False,
) -> Draft:
    """Apply a batch to a copy of a run, or only expire some of the due decisions where they are many.

    Parameters
    ----------
    base : the session at hand, which stays as it is
    batch : requests, in the order in which they are applied
    known : what the store has been found to remember of this batch
    now : Unix seconds
    write_schema : the newest schema that a state may be written in
    undoes : whether the run is copied before every request, so that what a faulty one did can be undone; without
        such copies the batch is applied again, with them, where one is faulty
    """
    draft = Draft(base.run.copy(), known, base.stored, write_schema)
    draft.run.advance(now)
    if draft.run.act_times is not None and draft.run.due:
        draft.changed = True
        draft.due_expired = await expire_due(draft.run, draft.journal, EXPIRY_SECONDS)
        if not draft.due_expired:
            return draft
    for operation in batch:
        before, stored, noted = draft.run.copy() if undoes else None, draft.stored, len(draft.journal)
        try:
            draft.results.append(await _apply(operation, draft))
        except ServiceError as error:
            draft.journal.rewind(noted)
            draft.results.append(error)
        except Exception:
            if before is None:
                return await apply_batch(base, batch, known, now, write_schema, undoes=True)
            log.exception("request failed")
            draft.run, draft.stored = before, stored
            draft.journal.rewind(noted)
            draft.results.append(InternalError())
        await draft.fair_yield()
    return draft


async def _apply(operation: Operation, draft: Draft) -> Answer:
    if operation.is_gone is not None and operation.is_gone():
        raise ClientGoneError
    checked = await operation.check(draft)
    key = operation.idempotency
    if key is not None and (earlier := draft.stored_answer(key)) is not None:
        return earlier
    applied = await operation.apply(draft, checked)
    body = applied.body
    if key is not None:
        packed = await pack(body, draft.fair_yield)
        draft.answers[key.key] = (key.body, packed)
        body = unpack(packed)
    draft.event_ids.update(dict.fromkeys(applied.event_ids))
    draft.changed |= applied.changed
    draft.extends_deadline |= operation.extends_deadline
    draft.shows_version |= applied.shows_version
    for outcome, count in applied.outcomes.items():
        draft.outcomes[outcome] = draft.outcomes.get(outcome, 0) + count
    draft.delays += applied.delays
    return Answer(body)
