"""Feedback: a batch of events is judged, and settled as a whole or not at all."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ...commit.operation import Applied
from ...cooperative.fair_yield import FairYield
from ...engine.arm_run import ArmRun
from ...engine.run import Run
from ...engine.slot_run import SlotRun
from ...errors import MAX_LISTED, InvalidRequestError, SurplusFeedbackError
from ...models.events import Event
from ...models.idempotency import Idempotency
from ...models.specification import Surplus
from .event_parsing import reader_of

MAX_DELAYS = 100
"""Events of a request whose delay is measured: the first so many."""


@dataclass(slots=True)
class SettleFeedback:
    """Settle a batch of events, all or none of them (surplus may be skipped)."""

    events: Sequence[Event]
    on_surplus: Surplus | None
    """None: skip in sessions whose decisions expire, refuse elsewhere."""
    single: bool = False
    idempotency: Idempotency | None = None
    is_use: bool = True
    _feedback: Sequence[Any] = field(default=(), init=False)
    _digests: Sequence[bytes | None] = field(default=(), init=False)
    """Of each event, once the batch was checked."""

    @property
    def weight(self) -> int:
        """Events in it."""
        return len(self.events)

    @property
    def digests(self) -> Sequence[bytes]:
        """Digests of its event ids."""
        return [digest for digest in self._digests if digest is not None]

    async def check(self, run: Run, pause: FairYield) -> None:
        """Read every event as the session's learner does, or refuse the request with the indexes."""
        read = reader_of(run)
        errors, feedback = [], []
        for index, event in enumerate(self.events):
            try:
                feedback.append(read(event, run))
            except InvalidRequestError as error:
                errors += [replace(each, index=None if self.single else index) for each in error.errors]
                if len(errors) >= MAX_LISTED:
                    break
            await pause()
        if errors:
            raise InvalidRequestError.of_all(errors)
        self._feedback = feedback
        self._digests = self._digests or await self._digested(pause)

    async def _digested(self, pause: FairYield) -> Sequence[bytes | None]:
        digests = []
        for event in self.events:
            digests.append(event.digest)
            await pause()
        return digests

    async def apply(self, run: Run, counted: Callable[[bytes], bool], pause: FairYield) -> Applied:
        """Settle what is neither a duplicate, nor of a removed arm, nor surplus."""
        judged = await self._judged(run, counted, pause)
        skips = self._skips(run)
        if judged.surplus and not skips:
            raise SurplusFeedbackError(_surplus_text(run, judged), indexes=judged.surplus)
        delays: list[float] = []
        for index in judged.applied:
            event = self._feedback[index]
            if len(delays) < MAX_DELAYS and (delay := run.delay(event)) is not None:
                delays.append(delay)
            run.settle(event)
            await pause()
        counts = {"applied": len(judged.applied), "duplicates": judged.duplicates}
        if judged.removed:
            counts["removed"] = judged.removed
        if skips:
            counts["surplus"] = len(judged.surplus)
        return _settlement(run, counts, list(judged.recorded))._replace(delays=delays)

    def _skips(self, run: Run) -> bool:
        if self.on_surplus is None:
            return run.params.expiry is not None
        return self.on_surplus == "skip"

    async def _judged(self, run: Run, counted: Callable[[bytes], bool], pause: FairYield) -> _Judged:
        """What becomes of each event; an id counts from the first event on that is not surplus."""
        judged, is_answer = _Judged(), run.judge()
        for index, digest in enumerate(self._digests):
            await pause()
            if digest is not None and (digest in judged.recorded or counted(digest)):
                judged.duplicates += 1
                continue
            if run.is_removed(self._feedback[index]):
                judged.removed += 1
            elif is_answer(self._feedback[index]):
                judged.applied.append(index)
            else:
                judged.surplus.append(index)
                continue
            if digest is not None:
                judged.recorded[digest] = None
        return judged


@dataclass(slots=True)
class _Judged:
    """What becomes of a batch's events: indexes, counts and the ids that count from now on."""

    applied: list[int] = field(default_factory=list)
    surplus: list[int] = field(default_factory=list)
    recorded: dict[bytes, None] = field(default_factory=dict)
    duplicates: int = 0
    removed: int = 0


def _surplus_text(run: Run, judged: _Judged) -> str:
    surplus, count = len(judged.surplus), len(judged.applied) + len(judged.surplus)
    if isinstance(run, SlotRun):
        return f"{surplus} of {count} events name a slot that is not outstanding"
    whose = " for their arms" if isinstance(run, ArmRun) else ""
    return f"{count} events for {run.ledger.outstanding} outstanding decisions: {surplus} too many{whose}"


def _settlement(run: Run, counts: dict[str, int], ids: list[bytes]) -> Applied:
    body = counts | {"slot": run.ledger.slot, "outstanding": run.ledger.outstanding}
    changed = counts["applied"] > 0 or bool(ids)
    return Applied(json.dumps(body, separators=(",", ":")).encode(), ids, changed, counts=counts)
