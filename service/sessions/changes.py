"""What changes a session beside acts and feedback: its arms, its window and floor, and decisions that are due."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from ..commit.batch import Applied, ArmsChanged, Draft, Journal, Operation, SessionChanged, expire_due
from ..cooperative import LABEL_BYTES, joined, run_in_thread_if_large
from ..engine.arm_run import ArmRun, Arms, Change
from ..engine.run import Run, with_params
from ..errors import FieldValueError, InvalidRequestError, NoLabelsError, SessionHaltedError
from ..models.specification import ExpirySpec, Specification, check_default_is_given, token_seconds
from ..models.stored import Stored
from ..serialization import records
from .act import check_control, check_defined
from .views import ArmLimits, View, check_labels, label_bytes

# -- Changing the arms of a session: some of them, or the whole catalogue.


@dataclass(slots=True)
class ChangeArms(Operation):
    """Remove arms by their labels, add some, resume some, and pause some; or replace the whole catalogue.

    Labels already absent or present change nothing. The answer is the session's view as of its commit.
    """

    limits: ArmLimits
    check_features: Callable[[str, Specification, int], None]
    """Refuses too many arms of a session with features."""
    view: View
    """Makes the answer."""
    add: Sequence[str] = ()
    remove: Sequence[str] = ()
    pause: Sequence[str] = ()
    resume: Sequence[str] = ()
    catalogue: Sequence[str] | None = None
    """In place of the others: those that are missing are added, then arms that it does not name are removed."""

    async def check(self, draft: Draft) -> None:
        """Refuse sessions without labels or whose learner has no pauses, and labels that are too long."""
        _with_labels(draft.run)
        field, labels = ("add", self.add) if self.catalogue is None else ("arms", self.catalogue)
        size = LABEL_BYTES * len(labels)
        await run_in_thread_if_large(size, check_labels, field, labels, self.limits.label_bytes)
        for field, labels in (("pause", self.pause), ("resume", self.resume)):
            if labels:
                check_defined(field, draft.run.learner)

    async def apply(self, draft: Draft, _checked: None) -> Applied:
        run = _with_labels(draft.run)
        named = (self.add, self.remove, self.pause, self.resume, self.catalogue or ())
        size = LABEL_BYTES * (len(run.arms.live) + len(run.arms.removed or ()) + sum(map(len, named)))
        changed, unknown = await run_in_thread_if_large(size, self._change, draft, run)
        is_used = changed or self.idempotency is not None
        view = await self.view(draft.stored, run, draft.journal, is_used, unknown)
        body = await joined(view, draft.fair_yield)
        return Applied(body, changed=changed, shows_version=True)

    def _change(self, draft: Draft, run: ArmRun) -> tuple[bool, Sequence[str]]:
        """Return whether that changes anything, and labels to remove, pause or resume that no arm has by then."""
        before, had, add, remove = run.arms, run.arms.labels or {}, self.add, self.remove
        if self.catalogue is not None:
            kept, add = set(self.catalogue), self.catalogue
            remove = [label for label in had if label not in kept]
        change, after, now, expiry = before.change(add, remove), before, run.ledger.time, run.params.expiry
        if change.removed or change.added:
            window = 0 if expiry is None else expiry.after_seconds
            known_seconds = max(self.limits.dedupe_seconds, window, run.params.remember_seconds)
            after = before.changed(change, now + known_seconds, now)
        after = after.with_pauses(self.resume, self.pause)
        has = after.labels or {}
        named = ((remove, had), (self.pause, has), (self.resume, has))
        unknown = list(dict.fromkeys(label for labels, known in named for label in labels if label not in known))
        if after is before:
            return False, unknown
        self._check_size(before, change, after)
        if change.added:
            self.check_features("features", draft.stored.specification, len(after.live))
        _note(draft, run, change, after)
        run.change_arms(change, after, adds_first=self.catalogue is not None)
        draft.stored = draft.stored._replace(arms=after)
        draft.records = {**draft.records, **records.encode_removed(before, after, change)}
        return True, unknown

    def _check_size(self, before: Arms, change: Change, after: Arms) -> None:
        limits, replaces, stays = self.limits, self.catalogue is not None, len(change.removed) < len(before.live)
        if len(after.paused) == len(after.live) or not (replaces or stays):
            field = "arms" if replaces else "pause" if stays and after.paused - before.paused else "remove"
            raise InvalidRequestError.of(field, "at least one arm must stay unpaused")
        field = "arms" if replaces else "add"
        if change.added and len(after.live) > limits.at_once:
            raise InvalidRequestError.of(field, f"there may be at most {limits.at_once} arms")
        if change.added and after.size > limits.ever:
            text = f"at most {limits.ever} arms, removed ones included, and this one has had {before.size}"
            advice = "create a new session, or raise BANDIT_MAX_ARMS_EVER"
            raise InvalidRequestError.of(field, f"a session may have had {text}: {advice}")


def _note(draft: Draft, run: ArmRun, change: Change, after: Arms) -> None:
    before, had, has, removed = run.arms, run.arms.names or (), after.names or (), change.removed
    outstanding = {arm: run.outstanding_by_arm.item(before.positions[arm]) for arm in removed}
    paused = [has[arm] for arm in sorted(after.paused - before.paused)]
    resumed = [has[arm] for arm in sorted(before.paused - after.paused - frozenset(removed))]
    given_up = {arm: count for arm, count in outstanding.items() if count}
    default = draft.stored.specification.default_loss
    draft.journal.append(
        ArmsChanged(change.added, [had[arm] for arm in removed], paused, resumed, given_up, default)
    )


def _with_labels(run: Run) -> ArmRun:
    """Refuse sessions without labels."""
    if not isinstance(run, ArmRun) or run.arms.names is None:
        raise NoLabelsError
    return run


# -- Changing a session's window, idle time, floor, goals and guard.


@dataclass(slots=True)
class ChangeSession(Operation):
    """Replace fields of a session's specification, each whole; the answer is the view as of its commit."""

    fields: Mapping[str, Any]
    """Fields of the specification, and ``halted``, those that were posted."""
    view: View
    """Makes the answer."""

    async def check(self, draft: Draft) -> Stored:
        """Return the session's specification after the change, if it is one."""
        before, run = draft.stored.specification, draft.run
        fields = {name: value for name, value in self.fields.items() if name != "halted"}
        specification = await run_in_thread_if_large(label_bytes(before), _changed, before, fields)
        if specification.floor:
            check_defined("floor", run.learner)
        if specification.control is not None and isinstance(run, ArmRun):
            names, is_new = run.arms.shown_names, specification.control != before.control
            check_control(specification.control, run.learner, len(run.arms.live) if is_new else None, names)
        if specification.control is None and run.counts.halted_at and "halted" not in self.fields:
            raise SessionHaltedError
        return draft.stored._replace(specification=specification)

    async def apply(self, draft: Draft, after: Stored) -> Applied:
        before, run = draft.stored.specification, draft.run
        known = [name for name in type(before).model_fields if name in self.fields or name == "guard"]
        changed = [name for name in known if getattr(before, name) != getattr(after.specification, name)]
        if run.control is not None and isinstance(run, ArmRun) and run.counts.halted_at and "halted" in self.fields:
            run.control.go_on(run)
            changed.append("halted")
        if changed:
            params, before_run = after.specification.params(after.seed), run
            draft.run = run = with_params(run, params)
            if run.act_times is not before_run.act_times:
                draft.records = {**draft.records, **records.dropped_act_times(before_run)}
            if "expiry" in changed and before.tokens:
                after = after._replace(tokens_from=max(after.tokens_from, run.ledger.time - token_seconds(before)))
            draft.stored = after
            draft.journal.append(SessionChanged(changed, after.specification.told))
        shown, journal = await _settled(run, draft.journal)
        view = await self.view(after, shown, journal, bool(changed or self.idempotency))
        body = await joined(view, draft.fair_yield)
        return Applied(body, changed=bool(changed), shows_version=True)


async def _settled(run: Run, journal: Journal) -> tuple[Run, Journal]:
    """Return the run as views show it, and what led to it: what a new window makes due the next commit settles."""
    if not run.due:
        return run, journal
    shown, journal = run.copy(), Journal(journal)
    await expire_due(shown, journal)
    return shown, journal


def _changed(before: Specification, fields: Mapping[str, Any]) -> Specification:
    """Return the specification with these fields.

    Raises
    ------
    InvalidRequestError
        where they do not go together, or would change what a provisional default has taught already.
    """
    given, guard = dict(fields), before.guard
    if "control" in given and given["control"] is None and guard is not None and "guard" not in given:
        # Without a control group there is nothing to tolerate.
        given["guard"] = None if guard.silence else guard.model_copy(update={"tolerance": None})
    if "expiry" in given:
        check_default_is_given(before, given["expiry"])
        given["expiry"] = _expiry(before, given["expiry"])
    try:
        changed = Specification.model_validate(dict(before) | given)
    except ValidationError as error:
        first = error.errors()[0]
        cause = first.get("ctx", {}).get("error")
        below = [cause.field] if isinstance(cause, FieldValueError) else []
        place = ".".join([*map(str, first["loc"]), *below]) or "body"
        raise InvalidRequestError.of(place, first["msg"].removeprefix("Value error, ")) from error
    if changed.expiry is None or "expiry" not in given:
        return changed
    was = before.expiry is not None and bool(before.expiry.provisional)
    beside = "segments" if changed.segments is not None else "features" if changed.features is not None else None
    if beside is not None and changed.default_loss is not None and not was:
        raise InvalidRequestError.of(
            f"expiry.default_{changed.word}", f"must be null in this session with {beside}"
        )
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
