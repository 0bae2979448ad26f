"""Folding: every request of a batch is applied to a copy of one version's run, in order.

What the store must then be told, and every request's answer, are gathered on the way. One that is refused fails
alone.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ..cooperative.answer_body import pack, unpack
from ..cooperative.fair_yield import BackgroundYield, FairYield
from ..engine.expiry import expire_oldest
from ..engine.run import Run
from ..errors import IdempotencyConflictError, InternalError, ServiceError
from ..models.idempotency import Idempotency
from .operation import Answer, Operation, unpack_answer

EXPIRY_SECONDS = 0.05
"""Expiry in one commit, with its rests; what is due beyond it is settled by further ones before requests are."""
_VERSION_JSON = b"\\u0000"

log = logging.getLogger(__name__)


@dataclass(slots=True)
class KnownKeys:
    """What the store is known to remember, learned while a batch is tried."""

    duplicates: set[bytes] = field(default_factory=set)
    replays: dict[bytes, bytes] = field(default_factory=dict)


@dataclass(slots=True)
class BatchResult:
    """A batch applied to a copy of one version's run."""

    run: Run
    outcomes: list[Answer | Exception] = field(default_factory=list)
    recorded: dict[bytes, None] = field(default_factory=dict)
    answers: dict[bytes, tuple[bytes, bytes]] = field(default_factory=dict)
    """Idempotency key to the body's digest and the answer."""
    changed: bool = False
    used: bool = False
    """Whether a request that puts off the idle deadline succeeded."""
    complete: bool = True
    """Whether all due decisions are settled; if not, no request has been applied yet."""
    shows_version: bool = False
    """Whether an answer still has ``VERSION`` in it."""
    counts: dict[str, int] = field(default_factory=dict)
    """Events by outcome."""
    delays: list[float] = field(default_factory=list)
    """Seconds from act to event, where known."""

    def show(self, version: str) -> None:
        """Put the version in force after the commit into the answers."""
        if not self.shows_version:
            return
        for place, outcome in enumerate(self.outcomes):
            if isinstance(outcome, Answer) and isinstance(outcome.body, bytes):
                shown = outcome.body.replace(_VERSION_JSON, version.encode())
                self.outcomes[place] = outcome._replace(body=shown)
        for key, (body, answer) in self.answers.items():
            if isinstance(unpack(answer), bytes):
                self.answers[key] = (body, answer.replace(_VERSION_JSON, version.encode()))


async def settle_due(run: Run, seconds: float = math.inf) -> bool:
    """Expire due decisions, bucket by bucket, one or more for about so long; False where some are left."""
    until, rest = time.perf_counter() + seconds, BackgroundYield()
    while run.due:
        for _ in expire_oldest(run):
            await rest()
        if time.perf_counter() >= until:
            return not run.due
    return True


async def apply_batch(
    base: Run, batch: Sequence[Operation], memory: KnownKeys, now: float, pause: FairYield
) -> BatchResult:
    """Apply a batch, or settle some of what is due where that is much."""
    fold = BatchResult(base.copy())
    fold.run.advance(now)
    fold.changed = fold.run.due
    fold.complete = await settle_due(fold.run, EXPIRY_SECONDS)
    if not fold.complete:
        return fold
    for operation in batch:
        before = fold.run.copy()
        try:
            fold.outcomes.append(await _apply(operation, fold, memory, pause))
        except ServiceError as error:
            fold.outcomes.append(error)
        except Exception:
            log.exception("request failed")
            fold.run = before
            fold.outcomes.append(InternalError())
        await pause()
    return fold


async def _apply(operation: Operation, fold: BatchResult, memory: KnownKeys, pause: FairYield) -> Answer:
    await operation.check(fold.run, pause)
    key = operation.idempotency
    if key is not None and (earlier := _stored_answer(key, fold, memory.replays)) is not None:
        return earlier
    applied = await operation.apply(
        fold.run, lambda digest: digest in memory.duplicates or digest in fold.recorded, pause
    )
    body = applied.body
    if key is not None:
        kept = await pack(body, pause)
        fold.answers[key.key] = (key.body, kept)
        body = unpack(kept)
    fold.recorded.update(dict.fromkeys(applied.recorded))
    fold.changed |= applied.changed
    fold.used |= operation.is_use
    fold.shows_version |= applied.shows_version
    for outcome, count in applied.counts.items():
        fold.counts[outcome] = fold.counts.get(outcome, 0) + count
    fold.delays += applied.delays
    return Answer(body)


def _stored_answer(key: Idempotency, fold: BatchResult, replays: Mapping[bytes, bytes]) -> Answer | None:
    """The answer this key got before, in this batch or ever; its body must be the same."""
    stored = replays.get(key.key)
    body, answer = fold.answers.get(key.key, (None, b"")) if stored is None else unpack_answer(stored)
    if body is None:
        return None
    if body != key.body:
        raise IdempotencyConflictError
    return Answer(unpack(answer), replayed=True)
