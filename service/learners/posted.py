"""What all objects that clients post have in common."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Posted(BaseModel):
    """An object as a client posts it: unknown fields and loose types are refused, and it never changes."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)
