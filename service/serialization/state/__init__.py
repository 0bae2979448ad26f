"""A session's state as bytes: ``codec`` writes and reads it whole, the other files its parts.

Imports ``binary`` and ``logs`` of the folder above.
"""

from __future__ import annotations

from .arms import decode_arms
from .codec import Decoded, arms_ever, decode, encode
from .fields import fixed_fields, rows_field
from .schemas import COMPACT, PACKED_COUNTS, SCHEMA, SCHEMA_BYTE, least_logged_arms

__all__ = [
    "COMPACT",
    "PACKED_COUNTS",
    "SCHEMA",
    "SCHEMA_BYTE",
    "Decoded",
    "arms_ever",
    "decode",
    "decode_arms",
    "encode",
    "fixed_fields",
    "least_logged_arms",
    "rows_field",
]
