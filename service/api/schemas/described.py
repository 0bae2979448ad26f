"""What answers have in common that are only described."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Described(BaseModel):
    """An answer in the OpenAPI document: routes write it themselves, so pydantic compiles nothing at the start."""

    model_config = ConfigDict(defer_build=True)
