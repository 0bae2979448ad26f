"""Acting: slots are opened, and the actions told."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...commit.operation import Applied
from ...cooperative.fair_yield import FairYield
from ...cooperative.json_stream import CHUNK_SCALARS
from ...engine.arm_run import ArmRun
from ...engine.run import Run
from ...errors import InvalidRequestError
from ...models.idempotency import Idempotency
from .action_json import action_text, actions_text


@dataclass(slots=True)
class Act:
    """Open ``count`` slots in a row; ``single`` answers with one action instead of a list."""

    count: int
    max_cells: int
    """Largest count * n_arms (or count * dim * dim) in one request."""
    single: bool = False
    idempotency: Idempotency | None = None
    digests: Sequence[bytes] = ()
    is_use: bool = True

    @property
    def weight(self) -> int:
        """Acts in it."""
        return self.count

    async def check(self, run: Run, pause: FairYield) -> None:  # noqa: ARG002 - in one go
        """Refuse a request that would answer, or compute, too much."""
        cells = _cells(run)
        if self.count > 1 and self.count * cells > self.max_cells:
            raise InvalidRequestError.of(
                "count", f"count times the learner's size ({cells}) must not exceed {self.max_cells}"
            )

    async def apply(self, run: Run, counted: Callable[[bytes], bool], pause: FairYield) -> Applied:  # noqa: ARG002 - acts have no event ids
        """Act."""
        actions = []
        for _ in range(self.count):
            actions.append(action_text(run))
            await pause()
        body = iter(actions[0]) if self.single else actions_text(actions)
        is_small = isinstance(run, ArmRun) or self.count * _cells(run) <= CHUNK_SCALARS
        return Applied("".join(body).encode() if is_small else body)


def _cells(run: Run) -> int:
    """Numbers that an act of the session takes."""
    return len(run.arms.live) if isinstance(run, ArmRun) else run.learner.dim**2
