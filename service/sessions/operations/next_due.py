"""Settling what is due when nobody calls: any operation does it, and this one does nothing else."""

from __future__ import annotations

from dataclasses import dataclass

from ...commit.batch import Applied, Draft, Operation


@dataclass(slots=True)
class NextDue(Operation):
    """Answer when decisions fall due next; what is due already is settled first, as before any operation."""

    extends_deadline = False

    @property
    def weight(self) -> int:
        return 0

    async def apply(self, draft: Draft, _checked: None) -> Applied:
        """Answer with Unix seconds as text, empty where nothing will fall due."""
        due_at = None if draft.run.act_times is None else draft.run.act_times.due_at()
        return Applied(b"" if due_at is None else repr(due_at).encode(), changed=False)
