"""Changing a session's window, idle time and floor."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from ...commit.batch import Applied, Draft, Journal, Operation, SessionChanged, expire_due
from ...cooperative import Body, joined, run_in_thread_if_large
from ...engine.run import Run, with_window_and_floor
from ...errors import FieldValueError, InvalidRequestError
from ...models.specification import ExpirySpec, Specification
from ...models.stored import Stored
from ...serialization import records
from ..limits import label_bytes
from .eligible import check_defined


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
        if (field := specification.beyond_0_1) is not None:
            draft.check_schema(field)
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
