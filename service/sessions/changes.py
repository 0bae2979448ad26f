"""What changes a session beside acts and feedback: its arms, its window and floor, and decisions that are due."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from pydantic import ValidationError

from ..commit.batch import Applied, ArmsChanged, Draft, Journal, Operation, SessionChanged, expire_due
from ..cooperative import LABEL_BYTES, Body, joined, run_in_thread_if_large
from ..engine.arm_run import ArmRun, Arms, Change
from ..engine.run import Run, with_window_and_floor
from ..errors import FieldValueError, InvalidRequestError, NoLabelsError
from ..models.specification import ExpirySpec, Specification
from ..models.stored import Stored
from ..serialization import records
from .act import check_defined
from .views import ArmLimits, check_labels, label_bytes

# -- Changing the arms of a session: some of them, or the whole catalogue.


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


# -- Changing a session's window, idle time and floor.


@dataclass(slots=True)
class ChangeSession(Operation):
    """Replace fields of a session's specification, each whole; the answer is the view as of its commit."""

    fields: Mapping[str, Any]
    """``expiry``, ``idle_ttl_seconds`` and ``floor``, those that were posted."""
    view: Callable[[Stored, Run, bool], Body]
    """Makes the answer, of a specification, a run, and whether the commit extends the idle deadline."""

    async def check(self, draft: Draft) -> Stored:
        """Return the session's specification after the change, if it is one."""
        before = draft.stored.specification
        specification = await run_in_thread_if_large(label_bytes(before), _changed, before, self.fields)
        if specification.floor:
            check_defined("floor", draft.run.learner)
        return Stored(specification, draft.stored.seed)

    async def apply(self, draft: Draft, after: Stored) -> Applied:
        before, run = draft.stored.specification, draft.run
        changed = [name for name in self.fields if getattr(before, name) != getattr(after.specification, name)]
        if changed:
            params = after.specification.params(after.seed)
            draft.dropped |= records.dropped_act_times(run)
            draft.run = run = with_window_and_floor(run, params.expiry, params.floor)
            draft.stored = after
            draft.journal.append(SessionChanged(changed))
        shown = await _settled(run)
        body = await joined(self.view(after, shown, bool(changed or self.idempotency)), draft.fair_yield)
        return Applied(body, changed=bool(changed), shows_version=True)


async def _settled(run: Run) -> Run:
    """Return the run as views show it: what a new window has made due is settled by the next commit."""
    if not run.due:
        return run
    shown = run.copy()
    await expire_due(shown, Journal())
    return shown


def _changed(before: Specification, fields: Mapping[str, Any]) -> Specification:
    """Return the specification with these fields.

    Raises
    ------
    InvalidRequestError
        where they do not go together, or would change what a provisional default has taught already.
    """
    given = dict(fields)
    if "expiry" in given:
        given["expiry"] = _expiry(before, given["expiry"])
    try:
        changed = Specification.model_validate(dict(before) | given)
    except ValidationError as error:
        raise _invalid(error) from error
    if changed.expiry is None or "expiry" not in given:
        return changed
    was = before.expiry is not None and bool(before.expiry.provisional)
    if changed.segments is not None and changed.default_loss is not None and not was:
        raise InvalidRequestError.of(f"expiry.default_{changed.word}", "must be null in this session with segments")
    expiry = changed.expiry.model_copy(update={"provisional": was if changed.may_be_provisional else None})
    return changed.model_copy(update={"expiry": expiry})


def _expiry(before: Specification, expiry: ExpirySpec | None) -> ExpirySpec | None:
    """Refuse to begin or end a provisional default, or to change it."""
    if before.expiry is None or not before.expiry.provisional:
        if expiry is not None and expiry.provisional:
            raise InvalidRequestError.of("expiry.provisional", "a session can't become provisional")
        return expiry
    if expiry is None:
        raise InvalidRequestError.of("expiry", "a session with a provisional default keeps its window")
    if expiry.provisional is False:
        raise InvalidRequestError.of("expiry.provisional", "a provisional default stays provisional")
    if expiry.default(before.word) != before.default_loss:
        message = "a provisional default can't change: every act was learned with it"
        raise InvalidRequestError.of(f"expiry.default_{before.word}", message)
    return expiry


def _invalid(error: ValidationError) -> InvalidRequestError:
    first = error.errors()[0]
    cause = first.get("ctx", {}).get("error")
    below = [cause.field] if isinstance(cause, FieldValueError) else []
    place = ".".join([*map(str, first["loc"]), *below]) or "body"
    return InvalidRequestError.of(place, first["msg"].removeprefix("Value error, "))


# -- Settling what is due when nobody calls: any operation does it, and this one does nothing else.


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
