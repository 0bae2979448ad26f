"""Showing a session as part of a commit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from service.commit.batch import Applied
from service.engine.run import Run
from service.models.specification import Idempotency
from service.pieces import Body, Pause, whole


@dataclass(frozen=True, slots=True)
class Show:
    """Nothing but the session's view, kept under an idempotency key."""

    view: Callable[[Run, bool], Body]
    """The answer, of a run and whether its commit puts off the idle deadline."""
    idempotency: Idempotency | None
    weight: int = 0
    digests: Sequence[bytes] = ()
    is_use: bool = False

    async def check(self, run: Run, pause: Pause) -> None:
        """Fit every session."""

    async def apply(self, run: Run, counted: Callable[[bytes], bool], pause: Pause) -> Applied:  # noqa: ARG002 - as any operation
        """Show it."""
        return Applied(await whole(self.view(run, self.is_use), pause), changed=False, shows_version=True)
