"""What all errors have in common, and how wrong fields are named."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

MAX_LISTED = 20
"""Errors listed at most in one answer."""
MAX_INDEXES = 1000
"""Indexes of events listed at most in one answer."""
MAX_ANSWER = 10_000
"""Bytes of the answer that lists them: errors that do not fit are left out."""
MAX_MESSAGE = 200
"""Characters of one listed message."""


@dataclass(frozen=True, slots=True)
class FieldError:
    """What is wrong with one field; ``index`` is the event's place in its batch, from 0."""

    field: str
    message: str
    index: int | None = None
    logged_as: str | None = None
    """What logs call a field whose name is the client's, as it may be anything."""
    logged_message: str | None = None
    """What logs say in place of a message that has text of the client's."""

    @property
    def place(self) -> str:
        """The path of the field in the body."""
        event = f"events[{self.index}]"
        return self.field if self.index is None or self.field == event else f"{event}.{self.field}"


class FieldValueError(ValueError):
    """A value that does not go with the others of its object.

    Parameters
    ----------
    field : the path of the value below the object that raises this
    message : what is wrong, for the client
    """

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


class ServiceError(Exception):
    """An error with a stable code, its HTTP status and a short title.

    Parameters
    ----------
    detail : text for the client; the title if None
    errors : what is wrong with which fields
    indexes : places of the wrong events in the request, from 0
    reason : what logs say in place of ``detail``, where that has text of the client's
    """

    status: ClassVar[int]
    code: ClassVar[str]
    title: ClassVar[str]
    retry: ClassVar[bool] = False
    """Whether the same request may succeed soon: the answer then carries ``Retry-After``."""

    def __init__(
        self,
        detail: str | None = None,
        *,
        errors: Sequence[FieldError] = (),
        indexes: Sequence[int] = (),
        reason: str | None = None,
    ) -> None:
        self.detail = detail or self.title
        self.reason = reason or self.detail
        self.errors = errors
        self.indexes = indexes
        super().__init__(self.detail)
