"""Query parameters of lists that are read a page at a time."""

from __future__ import annotations

import re
from typing import Annotated

from fastapi import Query
from pydantic import BeforeValidator

from ...models.events import MAX_SEGMENT_BYTES
from ...sessions.pages import MAX_PAGE

MAX_CURSOR = 12_000
"""Characters; a cursor of sessions carries ids, of up to 128, that a scan of the store brought beyond its page."""


def _digits(text: object) -> object:
    if isinstance(text, str) and not re.fullmatch("[0-9]{1,9}", text):
        raise ValueError("must be a whole number")
    return text


Cursor = Annotated[str | None, Query(description="``next_cursor`` of the previous page.", max_length=MAX_CURSOR)]
OfSegment = Annotated[
    str | None,
    Query(
        description="Name of a segment; the empty name stands for acts without a segment.",
        max_length=MAX_SEGMENT_BYTES,
    ),
]
Limit = Annotated[
    int, BeforeValidator(_digits), Query(ge=1, le=MAX_PAGE, description="Largest number of rows on a page.")
]
