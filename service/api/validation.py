"""Pydantic's findings in this service's words: field, event index, message."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from service.errors import FieldError, InvalidRequestError
from service.events import EVENT_TAGS
from service.learners import REGISTRY

_TAGS = EVENT_TAGS | REGISTRY.keys()


def of_validation(errors: Iterable[Mapping[str, Any]]) -> InvalidRequestError:
    """One error for all findings; its text tells the first."""
    found = [_field_error(error) for error in errors]
    return InvalidRequestError.of_all(found) if found else InvalidRequestError()


def _field_error(error: Mapping[str, Any]) -> FieldError:
    place: Sequence[Any] = error["loc"]
    index = None
    if len(place) > 2 and place[1] == "events" and isinstance(place[2], int):
        index, place = place[2], place[2:]
    names = [str(part) for part in place[1:] if part not in _TAGS] or [str(place[0])]
    message = str(error["msg"]).removeprefix("Value error, ")
    if error["type"] == "missing" and names == ["body"]:
        message = "a JSON object is required"
    return FieldError(".".join(names), message, index)
