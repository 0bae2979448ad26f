"""Showing a session as part of a commit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...commit.operation import Applied
from ...cooperative.answer_body import Body, joined
from ...cooperative.fair_yield import FairYield
from ...engine.run import Run
from ...models.idempotency import Idempotency


@dataclass(frozen=True, slots=True)
class Show:
    """Nothing but the session's view, kept under an idempotency key."""

    view: Callable[[Run, bool], Body]
    """The answer, of a run and whether its commit puts off the idle deadline."""
    idempotency: Idempotency | None
    weight: int = 0
    digests: Sequence[bytes] = ()
    is_use: bool = False

    async def check(self, run: Run, pause: FairYield) -> None:
        """Fit every session."""

    async def apply(self, run: Run, counted: Callable[[bytes], bool], pause: FairYield) -> Applied:  # noqa: ARG002 - as any operation
        """Show it."""
        return Applied(await joined(self.view(run, self.is_use), pause), changed=False, shows_version=True)
