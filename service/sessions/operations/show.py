"""Showing a session as part of a commit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ...commit.batch import Applied, Draft, Operation
from ...cooperative import Body, joined
from ...engine.run import Run


@dataclass(slots=True)
class Show(Operation):
    """Change nothing; answer with the session's view, which the idempotency key then stores."""

    extends_deadline = False

    view: Callable[[Run, bool], Body]
    """Makes the view, of a run and whether its commit extends the idle deadline."""

    @property
    def weight(self) -> int:
        return 0

    async def apply(self, draft: Draft, _checked: None) -> Applied:
        body = await joined(self.view(draft.run, self.extends_deadline), draft.fair_yield)
        return Applied(body, changed=False, shows_version=True)
