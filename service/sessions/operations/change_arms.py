"""Changing the arms of a session."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...commit.operation import Applied
from ...cooperative.answer_body import Body, joined
from ...cooperative.fair_yield import FairYield
from ...cooperative.offload import LABEL_BYTES, run_in_thread_if_large
from ...engine.arm_run import ArmRun
from ...engine.arms import Arms, Change
from ...engine.run import Run
from ...errors import InvalidRequestError, NoLabelsError
from ...models.idempotency import Idempotency
from ..limits import check_labels

LIVES = 10
"""A session may have had this many times the arms it may have at once: indexes and labels are kept for ever."""


@dataclass(frozen=True, slots=True)
class ChangeArms:
    """Remove arms by label, then add some; labels that are not there, or there already, change nothing."""

    add: Sequence[str]
    remove: Sequence[str]
    max_arms: int
    max_label_bytes: int
    view: Callable[[Run, bool], Body]
    """The answer, of a run and whether its commit puts off the idle deadline."""
    idempotency: Idempotency | None = None
    digests: Sequence[bytes] = ()
    weight: int = 1
    is_use: bool = True

    async def check(self, run: Run, pause: FairYield) -> None:  # noqa: ARG002 - in one go
        """Refuse sessions without labels, and labels that are too long."""
        _with_labels(run)
        await run_in_thread_if_large(
            LABEL_BYTES * len(self.add), check_labels, "add", self.add, self.max_label_bytes
        )

    async def apply(self, run: Run, counted: Callable[[bytes], bool], pause: FairYield) -> Applied:  # noqa: ARG002 - arms have no event ids
        """Change the arms, all of them as asked or none."""
        arm_run = _with_labels(run)
        size = LABEL_BYTES * (arm_run.arms.size + len(self.add) + len(self.remove))
        changed = await run_in_thread_if_large(size, self._change, arm_run)
        body = await joined(self.view(run, changed or self.idempotency is not None), pause)
        return Applied(body, changed=changed, shows_version=True)

    def _change(self, run: ArmRun) -> bool:
        change = run.arms.change(self.add, self.remove)
        self._check_size(run.arms, change)
        if not (change.removed or change.added):
            return False
        run.change_arms(change)
        return True

    def _check_size(self, arms: Arms, change: Change) -> None:
        staying = len(arms.live) - len(change.removed)
        if not staying:
            raise InvalidRequestError.of("remove", "at least one arm must stay")
        if not change.added:
            return
        if staying + len(change.added) > self.max_arms:
            raise InvalidRequestError.of("add", f"there may be at most {self.max_arms} arms")
        if arms.size + len(change.added) > LIVES * self.max_arms:
            most = LIVES * self.max_arms
            raise InvalidRequestError.of(
                "add", f"a session may have had at most {most} arms, removed ones included"
            )


def _with_labels(run: Run) -> ArmRun:
    """Refuse sessions without labels."""
    if not isinstance(run, ArmRun) or run.arms.names is None:
        raise NoLabelsError
    return run
