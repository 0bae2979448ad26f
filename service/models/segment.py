"""Segments as clients name them, in acts and events."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from ..learners.base import Posted
from ..learners.specs import Whole

MAX_SEGMENT_BYTES = 128
MAX_SEGMENTS = 100_000


def _bytes_fit(name: str) -> str:
    if len(name.encode()) > MAX_SEGMENT_BYTES:
        raise ValueError(f"a segment has at most {MAX_SEGMENT_BYTES} bytes")
    return name


Segment = Annotated[
    str,
    AfterValidator(_bytes_fit),
    Field(
        min_length=1,
        max_length=MAX_SEGMENT_BYTES,
        description="The segment, in a session with ``segments``: 1 to 128 bytes. The events of a decision name "
        "the segment of its act.",
    ),
]


class SegmentsSpec(Posted):
    """Acts and events name segments. The session learns for each, and shares what the segments have in common."""

    max: Annotated[
        Whole,
        Field(
            ge=1,
            le=MAX_SEGMENTS,
            description="Segments kept at most: with one more, the one played least recently is dropped.",
        ),
    ]
