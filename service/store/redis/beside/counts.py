"""The counts of arms as Redis has them.

Where they are packed, a field for each arm holds them as numbers of MessagePack, which the script of a commit
unpacks, adds to and packs again: feedbacks, losses, and the others where one of them is not 0. Commits of sessions
with few arms add to one value of the session instead, with a text of MessagePack for each arm, by index: they write
to one key alone. What a session has in both ways is added up. Counts that are not packed are a text each.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest

from ...base import ArmCounts
from ...base.counts import LETTERS, Row, rows_of

_LAYOUTS = {first: struct.Struct(f">{kind}") for first, kind in zip(range(0xCA, 0xD4), "fdBHIQbhiq", strict=True)}
"""First byte of a number to what follows; other first bytes are small integers themselves."""
_LENGTHS = {first: struct.Struct(f">{kind}") for first, kind in ((0xD9, "B"), (0xDA, "H"))}
"""First byte of a text that is not short to what its length is."""
_WRITTEN = ((0xCC, 1 << 8), (0xCD, 1 << 16), (0xCE, 1 << 32), (0xCF, 1 << 64))
"""First bytes of integers, and what these are less than."""


def text_fields(arms: Iterable[int]) -> Sequence[bytes]:
    """Return the names of the texts of arms, by index, in the order of their counts in a row."""
    return [b"%c%d" % (letter, arm) for arm in arms for letter in LETTERS]


def read_fields(fields: Iterable[tuple[bytes, bytes]]) -> dict[int, Sequence[float]]:
    """Read the counts of arms, packed or texts; one that was changed by hand, to what is no number, is 0.

    Parameters
    ----------
    fields : name and value of each: an arm's index and its packed counts, or the name of a text and that

    Returns
    -------
    Index of an arm to its counts, which may lack the last ones where these are 0.
    """
    rows, named = dict[int, Sequence[float]](), []
    for field, value in fields:
        if field.isdigit():
            rows[int(field)] = (0, *_unpacked(value))[: len(LETTERS)]
        else:
            named.append((field, value))
    return rows | rows_of(named) if named else rows


def with_joined(rows: dict[int, Sequence[float]], joined: bytes | None) -> dict[int, Sequence[float]]:
    """Add the counts of all arms that a session has as one value to those of its fields, and return these.

    Parameters
    ----------
    rows : index of an arm to its counts, as ``read_fields`` gives them; they are changed
    joined : that value, None where there is none; what was changed by hand to something else counts as 0
    """
    for arm, data in enumerate(_texts(joined or b"")):
        row = (0, *_unpacked(data))[: len(LETTERS)]
        rows[arm] = [sum(pair) for pair in zip_longest(rows.get(arm, ()), row, fillvalue=0)]
    return rows


def _texts(data: bytes) -> Iterator[bytes]:
    """Yield the texts of MessagePack that follow each other, up to one that is none or is cut."""
    at = 0
    while at < len(data):
        first, at = data[at], at + 1
        if 0xA0 <= first < 0xC0:
            size = first - 0xA0
        elif first in _LENGTHS and at + _LENGTHS[first].size <= len(data):
            (size,) = _LENGTHS[first].unpack_from(data, at)
            at += _LENGTHS[first].size
        else:
            return
        yield data[at : at + size]
        at += size


def packed(row: Row) -> bytes:
    """Pack the counts of an arm, but for its acts."""
    _, feedbacks, losses, *others = ArmCounts(*row)
    return b"".join(map(_packed, (feedbacks, losses, *(others if any(others) else ()))))


def _packed(number: float) -> bytes:
    if number < 0 or number != int(number):
        return b"\xcb" + _LAYOUTS[0xCB].pack(number)
    if number < 0x80:
        return bytes((int(number),))
    first = next(first for first, most in _WRITTEN if number < most)
    return bytes((first,)) + _LAYOUTS[first].pack(int(number))


def _unpacked(row: bytes) -> list[float]:
    numbers, at = list[float](), 0
    while at < len(row):
        first, at = row[at], at + 1
        if (layout := _LAYOUTS.get(first)) is not None and at + layout.size <= len(row):
            numbers += layout.unpack_from(row, at)
            at += layout.size
        elif first < 0x80 or first >= 0xE0:
            numbers.append(first - 256 * (first >= 0xE0))
        else:
            return []
    return numbers if all(map(math.isfinite, numbers)) else []
