"""Numbers and arrays as bytes: ``writer`` has the layout, ``reader`` reads it. Imports numpy alone."""

from __future__ import annotations

from .writer import (
    BYTE,
    BYTES,
    CHECKSUM_BYTES,
    FLOAT_ARRAY,
    INT_ARRAY,
    LENGTH,
    MAX_LENGTH,
    ROWS,
    CodecError,
    Writer,
    checksum,
    foreign,
    width_of,
)

__all__ = [
    "BYTE",
    "BYTES",
    "CHECKSUM_BYTES",
    "FLOAT_ARRAY",
    "INT_ARRAY",
    "LENGTH",
    "MAX_LENGTH",
    "ROWS",
    "CodecError",
    "Writer",
    "checksum",
    "foreign",
    "width_of",
]
