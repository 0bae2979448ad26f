"""Settling what is due when nobody calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...commit.operation import Applied
from ...cooperative.fair_yield import FairYield
from ...engine.run import Run
from ...models.idempotency import Idempotency


@dataclass(frozen=True, slots=True)
class SettleDue:
    """Nothing of its own: what is due is settled before it. Answers when the session has decisions due next."""

    weight: int = 0
    idempotency: Idempotency | None = None
    digests: Sequence[bytes] = ()
    is_use: bool = False

    async def check(self, run: Run, pause: FairYield) -> None:
        """Fit every session."""

    async def apply(self, run: Run, counted: Callable[[bytes], bool], pause: FairYield) -> Applied:  # noqa: ARG002 - as any operation
        """Tell the next time as text, nothing where there is none."""
        due_at = None if run.act_times is None else run.act_times.due_at()
        return Applied(b"" if due_at is None else repr(due_at).encode(), changed=False)
