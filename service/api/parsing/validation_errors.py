"""Pydantic's errors as this service reports them: field, event index, message."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from ...errors import FieldError, FieldValueError, InvalidRequestError
from ...learners import REGISTRY
from ...learners.fixed import BY_LABEL, BY_POSITION
from ...learners.specs import FEASIBLE_SETS
from ...models.events import EVENT_TAGS, PRINTABLE_ASCII
from ...models.specification import SESSION_ID_PATTERN

_TAGS: Mapping[str, Collection[str]] = {
    "body": EVENT_TAGS,
    "event": EVENT_TAGS,
    "learner": REGISTRY.keys(),
    "feasible_set": FEASIBLE_SETS,
    "probabilities": {BY_LABEL, BY_POSITION},
}
"""Tags that pydantic puts into the path of a field: the member of a union that it tried."""
_FIELDS = frozenset({"extra_forbidden", "missing"})
"""Types of errors with a path that ends in a field's name, even if a tag has the same name."""
_UNKNOWN = "a field or parameter that is not known"
_PATTERNS: Mapping[str, str] = {
    SESSION_ID_PATTERN: "must be 1 to 128 letters (A-Z, a-z), digits, '.', '_' and '-', a letter or digit first",
    PRINTABLE_ASCII: "must be printable ASCII",
}
"""What a text must be, in words, by its pattern."""
_OUTCOMES = "Field required: loss, or reward in a session with reward_range; over points losses or gradient"
_LOSS = ("ArmEvent", "loss")
"""Path of the outcome in an event that has none: it is read as one of an arm with a loss."""
_NO_OBJECT = frozenset({"model_type", "model_attributes_type", "dict_type"})


def from_pydantic_errors(errors: Iterable[Mapping[str, Any]]) -> InvalidRequestError:
    """Make one error of all that pydantic found; its text is about the first.

    Parameters
    ----------
    errors : with ``type``, ``loc``, ``msg`` and, for unions, ``ctx``, as ``ValidationError.errors()`` gives them
    """
    found = [_field_error(error) for error in errors]
    return InvalidRequestError.of_all(found) if found else InvalidRequestError()


def _field_error(error: Mapping[str, Any]) -> FieldError:
    place: Sequence[Any] = error["loc"]
    index = None
    if len(place) > 2 and place[1] == "events" and isinstance(place[2], int):
        index, place = place[2], ("event", *place[3:])
    names, message = _names(place, error["type"]), _message(error)
    if error["type"].startswith("union_tag_"):
        names.append("kind")
    cause = error.get("ctx", {}).get("error")
    if isinstance(cause, FieldValueError):
        names.append(cause.field)
    if not names:
        names = [f"events[{index}]" if index is not None else str(place[0])]
        message = "a JSON object is required" if error["type"] == "missing" else message
    if error["type"] == "missing" and tuple(place[1:]) == _LOSS:
        message = _OUTCOMES
    if error["type"] == "int_type" and names[-1] == "arm":
        message += ", the index of an arm; or use label"
    unknown = error["type"] == "extra_forbidden"
    return FieldError(".".join(names), message, index, logged_as=_UNKNOWN if unknown else None)


def _names(place: Sequence[Any], kind: str) -> list[str]:
    """Return the names of the fields in a path, without the tags of unions."""
    last = len(place) - 1
    return [
        str(part)
        for n, (before, part) in enumerate(pairwise(place), 1)
        if part not in _TAGS.get(before, ()) or (n == last and kind in _FIELDS)
    ]


def _message(error: Mapping[str, Any]) -> str:
    if error["type"] in _NO_OBJECT:
        return "must be a JSON object"
    if error["type"] == "union_tag_not_found":
        return "Field required"
    if error["type"] == "union_tag_invalid":
        return f"must be one of {error['ctx']['expected_tags']}"
    if error["type"] == "string_pattern_mismatch" and (words := _PATTERNS.get(error["ctx"]["pattern"])):
        return words
    return str(error["msg"]).removeprefix("Value error, ")
