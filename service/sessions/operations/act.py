"""Acting: open slots, and answer with their actions."""

from __future__ import annotations

from dataclasses import dataclass

from ...commit.draft import Draft
from ...commit.operation import Applied, Operation
from ...cooperative.json_stream import CHUNK_SCALARS
from ...engine.arm_run import ArmRun
from ...engine.run import Run
from ...errors import InvalidRequestError
from .action_json import action_json, actions_json


@dataclass(slots=True)
class Act(Operation):
    """Open ``count`` slots in a row; ``single`` answers with one action instead of a list."""

    count: int
    max_cells: int
    """Largest count * n_arms (or count * dim * dim) in one request."""
    single: bool = False

    @property
    def weight(self) -> int:
        return self.count

    async def check(self, draft: Draft) -> None:
        cells = _cells(draft.run)
        if self.count > 1 and self.count * cells > self.max_cells:
            raise InvalidRequestError.of(
                "count", f"count times the learner's size ({cells}) must not exceed {self.max_cells}"
            )

    async def apply(self, draft: Draft, _checked: None) -> Applied:
        run, actions = draft.run, []
        for _ in range(self.count):
            actions.append(action_json(run, draft.journal))
            await draft.fair_yield()
        body = iter(actions[0]) if self.single else actions_json(actions)
        is_small = isinstance(run, ArmRun) or self.count * _cells(run) <= CHUNK_SCALARS
        return Applied("".join(body).encode() if is_small else body)


def _cells(run: Run) -> int:
    """Numbers that an act of the session computes: one for each arm, or for each coordinate of each query point."""
    return len(run.arms.live) if isinstance(run, ArmRun) else run.learner.dim**2
