"""What is counted of the arms of a session, beside its state."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple


class ArmCounts(NamedTuple):
    """What is counted of one arm, with losses on the scale where 0 is best and 1 is worst."""

    acts: float = 0
    """0 where counts are packed: every act is outstanding, or counted by what became of it."""
    feedbacks: float = 0
    losses: float = 0
    """Sum of the losses of applied events and of decisions learned at the default."""
    defaulted: float = 0
    """Expired decisions that were learned at the default loss."""
    expired: float = 0
    voided: float = 0
    removed: float = 0


ACTS, FEEDBACKS, LOSSES, DEFAULTED, EXPIRED, VOIDED, REMOVED = range(len(ArmCounts._fields))
"""Where each count stands in a row."""
LETTERS = b"afsdxvr"
"""First byte of the name of a count in a text, in the order of a row; the arm's index follows."""

Row = Sequence[float]
Rows = Mapping[int, Row]
"""Index of an arm to its counts."""


def texts(rows: Rows) -> Iterator[tuple[bytes, bytes]]:
    """Return names and decimal texts of counts other than 0, as exports have them and as 1.0 stores them."""
    for arm, row in rows.items():
        for letter, count in zip(LETTERS, row, strict=False):
            if count:
                yield b"%c%d" % (letter, arm), str(count).encode()


def rows_of(named: Iterable[tuple[bytes, bytes]]) -> dict[int, list[float]]:
    """Read what ``texts`` wrote; what is none of it, changed by hand perhaps, is left out."""
    rows: dict[int, list[float]] = {}
    for name, text in named:
        place, arm = LETTERS.find(name[:1]), name[1:]
        if place >= 0 and arm.isdigit() and (count := _number(text)) is not None:
            rows.setdefault(int(arm), [0] * len(LETTERS))[place] += count
    return rows


def _number(text: bytes) -> float | None:
    try:
        number = int(text) if text.lstrip(b"-").isdigit() else float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
