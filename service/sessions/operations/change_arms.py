"""Changing the arms of a session."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...commit.draft import Draft
from ...commit.operation import Applied, Operation
from ...cooperative.answer_body import Body, joined
from ...cooperative.offload import LABEL_BYTES, run_in_thread_if_large
from ...engine.arm_run import ArmRun
from ...engine.arms import Arms, Change
from ...engine.run import Run
from ...errors import InvalidRequestError, NoLabelsError
from ...serialization.journal import ArmsChanged, Journal
from ..limits import check_labels

LIVES = 10
"""A session may have had this many times the arms it may have at once: indexes and labels are kept for ever."""


@dataclass(slots=True)
class ChangeArms(Operation):
    """Remove arms by label, then add some; labels already absent or present change nothing."""

    add: Sequence[str]
    remove: Sequence[str]
    max_arms: int
    """Arms the session may have at once."""
    max_label_bytes: int
    view: Callable[[Run, bool], Body]
    """Makes the answer, of a run and whether its commit extends the idle deadline."""

    async def check(self, draft: Draft) -> None:
        """Refuse sessions without labels, and labels that are too long."""
        _with_labels(draft.run)
        await run_in_thread_if_large(
            LABEL_BYTES * len(self.add), check_labels, "add", self.add, self.max_label_bytes
        )

    async def apply(self, draft: Draft, _checked: None) -> Applied:
        run = _with_labels(draft.run)
        size = LABEL_BYTES * (run.arms.size + len(self.add) + len(self.remove))
        changed = await run_in_thread_if_large(size, self._change, run, draft.journal)
        body = await joined(self.view(run, changed or self.idempotency is not None), draft.fair_yield)
        return Applied(body, changed=changed, shows_version=True)

    def _change(self, run: ArmRun, journal: Journal) -> bool:
        change = run.arms.change(self.add, self.remove)
        self._check_size(run.arms, change)
        if not (change.removed or change.added):
            return False
        outstanding, names = run.ledger.by_arm, run.arms.names or ()
        given_up = {arm: int(outstanding[arm]) for arm in change.removed if outstanding[arm]}
        journal.append(ArmsChanged(change.added, [names[arm] for arm in change.removed], given_up=given_up))
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
