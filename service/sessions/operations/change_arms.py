"""Changing the arms of a session: some of them, or the whole catalogue."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from ...commit.batch import Applied, ArmsChanged, Draft, Journal, Operation
from ...cooperative import LABEL_BYTES, Body, joined, run_in_thread_if_large
from ...engine.arm_run import ArmRun, Arms, Change
from ...engine.run import Run
from ...errors import InvalidRequestError, NoLabelsError
from ..limits import ArmLimits, check_labels
from .eligible import check_defined


class _Plan(NamedTuple):
    """What a request does to the arms."""

    change: Change
    after: Arms
    """The arms there are then."""


@dataclass(slots=True)
class _ArmsOperation(Operation):
    """A change of arms by their labels; the answer is the session's view as of its commit."""

    adds_first: ClassVar[bool]

    limits: ArmLimits
    view: Callable[[Run, bool], Body]
    """Makes the answer, of a run and whether its commit extends the idle deadline."""

    @property
    @abstractmethod
    def coming(self) -> tuple[str, Sequence[str]]:
        """The field that may name new labels, and those labels."""

    @property
    @abstractmethod
    def count(self) -> int:
        """Labels in the request."""

    @abstractmethod
    def plan(self, arms: Arms) -> _Plan:
        """Find out what the request does to a session's arms."""

    @abstractmethod
    def missing_field(self, arms: Arms, plan: _Plan) -> str:
        """Return the field that leaves no arm that may be drawn."""

    async def check(self, draft: Draft) -> None:
        """Refuse sessions without labels, and labels that are too long."""
        _with_labels(draft.run)
        field, labels = self.coming
        size = LABEL_BYTES * len(labels)
        await run_in_thread_if_large(size, check_labels, field, labels, self.limits.label_bytes)

    async def apply(self, draft: Draft, _checked: None) -> Applied:
        run = _with_labels(draft.run)
        size = LABEL_BYTES * (run.arms.size + self.count)
        changed = await run_in_thread_if_large(size, self._change, draft, run)
        body = await joined(self.view(run, changed or self.idempotency is not None), draft.fair_yield)
        return Applied(body, changed=changed, shows_version=True)

    def _change(self, draft: Draft, run: ArmRun) -> bool:
        plan = self.plan(run.arms)
        if plan.after is run.arms:
            return False
        self._check_size(run.arms, plan)
        if plan.after.paused - run.arms.paused:
            draft.check_schema("pause")
        _note(draft.journal, run, plan)
        run.change_arms(plan.change, plan.after, adds_first=self.adds_first)
        return True

    def _check_size(self, arms: Arms, plan: _Plan) -> None:
        after, limits, (field, _) = plan.after, self.limits, self.coming
        if len(after.paused) == len(after.live) or not (self.adds_first or _stays(arms, plan.change)):
            raise InvalidRequestError.of(self.missing_field(arms, plan), "at least one arm must stay unpaused")
        if not plan.change.added:
            return
        if len(after.live) > limits.at_once:
            raise InvalidRequestError.of(field, f"there may be at most {limits.at_once} arms")
        if after.size > limits.ever:
            raise InvalidRequestError.of(
                field,
                f"a session may have had at most {limits.ever} arms, removed ones included, and this one has had "
                f"{arms.size}: create a new session, or raise BANDIT_MAX_ARMS_EVER",
            )


@dataclass(slots=True)
class ChangeArms(_ArmsOperation):
    """Remove arms, add some, resume some, and pause some; labels already absent or present change nothing."""

    adds_first: ClassVar = False

    add: Sequence[str] = ()
    remove: Sequence[str] = ()
    pause: Sequence[str] = ()
    resume: Sequence[str] = ()

    @property
    def coming(self) -> tuple[str, Sequence[str]]:
        return "add", self.add

    @property
    def count(self) -> int:
        return len(self.add) + len(self.remove) + len(self.pause) + len(self.resume)

    async def check(self, draft: Draft) -> None:
        """Refuse sessions without labels or whose learner has no pauses, and labels that are too long."""
        await _ArmsOperation.check(self, draft)
        for field, labels in (("pause", self.pause), ("resume", self.resume)):
            if labels:
                check_defined(field, draft.run.learner)

    def plan(self, arms: Arms) -> _Plan:
        change = arms.change(self.add, self.remove)
        after = arms.changed(change) if change.removed or change.added else arms
        return _Plan(change, after.with_pauses(self.resume, self.pause))

    def missing_field(self, arms: Arms, plan: _Plan) -> str:
        return "pause" if plan.after.paused - arms.paused and _stays(arms, plan.change) else "remove"


@dataclass(slots=True)
class ReplaceArms(_ArmsOperation):
    """Add the arms of a catalogue that are missing, then remove those that it does not name."""

    adds_first: ClassVar = True

    arms: Sequence[str] = ()
    """Labels; not empty."""

    @property
    def coming(self) -> tuple[str, Sequence[str]]:
        return "arms", self.arms

    @property
    def count(self) -> int:
        return len(self.arms)

    def plan(self, arms: Arms) -> _Plan:
        catalogue, names = set(self.arms), arms.names or ()
        change = arms.change(self.arms, [names[arm] for arm in arms.live if names[arm] not in catalogue])
        return _Plan(change, arms.changed(change) if change.removed or change.added else arms)

    def missing_field(self, arms: Arms, plan: _Plan) -> str:  # noqa: ARG002 - there is one field
        return "arms"


def _stays(arms: Arms, change: Change) -> bool:
    """Return whether an arm is left when those that leave are removed."""
    return len(change.removed) < len(arms.live)


def _note(journal: Journal, run: ArmRun, plan: _Plan) -> None:
    outstanding, before, names = run.ledger.by_arm, run.arms.paused, plan.after.names or ()
    removed, paused = plan.change.removed, plan.after.paused
    journal.append(
        ArmsChanged(
            plan.change.added,
            [names[arm] for arm in removed],
            [names[arm] for arm in sorted(paused - before)],
            [names[arm] for arm in sorted(before - paused - frozenset(removed))],
            given_up={arm: int(outstanding[arm]) for arm in removed if outstanding[arm]},
        )
    )


def _with_labels(run: Run) -> ArmRun:
    """Refuse sessions without labels."""
    if not isinstance(run, ArmRun) or run.arms.names is None:
        raise NoLabelsError
    return run
