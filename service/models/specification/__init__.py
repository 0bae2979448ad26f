"""What a session is created with, as clients post it: its fields, and which of them go together."""

from __future__ import annotations

from .fields import SESSION_ID_PATTERN
from .specification import FIELDS_OF_0_1, Specification

__all__ = ["FIELDS_OF_0_1", "SESSION_ID_PATTERN", "Specification"]
