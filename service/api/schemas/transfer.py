"""A session as it moves to another service."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from ...learners.base import Posted
from ...models.specification import SESSION_ID_PATTERN

LAST_SECOND = 253_402_300_799
"""The last of the year 9999, in Unix seconds: views write years with four digits."""


class Part(Posted):
    """Part of some bytes."""

    part: str = Field(description="In base64.")


class ExportedSession(Posted):
    """A whole session, as of one version."""

    format: int = Field(ge=1, description="Version of the format of this document.")
    session_id: str = Field(pattern=SESSION_ID_PATTERN)
    version: str
    created_at: float = Field(ge=0, le=LAST_SECOND, description="Unix seconds.")
    specification: dict[str, Any] = Field(
        description="The fields that the session was created with, the seed included."
    )
    state: list[Part]
    records: list[Part]
    counts: list[Part]
    event_ids: list[Part]
    segments: list[Part] = Field([], description="Left out if the session has none.")
    sha256: str = Field(description="Of the rest as JSON with sorted keys, without spaces, in ASCII.")
