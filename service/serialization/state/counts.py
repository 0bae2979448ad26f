"""The numbers of a session's ledger, as they stand in its state."""

from __future__ import annotations

import math
import struct
from operator import attrgetter
from typing import Any

from ...engine.ledger import Ledger
from ..binary import CodecError, Writer, width_of
from ..binary.reader import Reader

_OF_1 = ("slot", "feedbacks", "expired", "removed", "total_delay", "outstanding", "time")
_NEW = ("voided", "losses", "counted_from_slot", "mean_loss", "last_act_at", "last_event_at", "equal_losses")
_FULL = {1: (_OF_1, struct.Struct("<6qd")), 2: (_OF_1 + _NEW, struct.Struct("<6qd3q3d?"))}
"""Schema to the names of the numbers and their layout."""
_INTEGERS = (*_OF_1[:-1], *_NEW[:3])
_COMPACT = (*_INTEGERS, "time", *_NEW[3:])
_LAYOUTS = {width: struct.Struct(f"<B9{kind}4d?") for width, kind in ((1, "b"), (2, "h"), (4, "i"), (8, "q"))}
"""Bytes of an integer to the layout from schema 3 on, which begins with them."""
_numbers = attrgetter(*_COMPACT)


def write_counts(ledger: Ledger, schema: int, writer: Writer) -> None:
    """Write a ledger's numbers.

    Parameters
    ----------
    ledger : of the session; its outstanding decisions by arm are not among the numbers
    schema : of the state
    writer : to which the schema has been written
    """
    if schema in _FULL:
        names, layout = _FULL[schema]
        writer.pack(layout, *attrgetter(*names)(ledger))
    else:
        numbers = _numbers(ledger)
        width = width_of(numbers[: len(_INTEGERS)])
        writer.pack(_LAYOUTS[width], width, *numbers)


def read_counts(schema: int, reader: Reader) -> dict[str, Any]:
    """Read a ledger's numbers, by the names of its fields.

    Parameters
    ----------
    schema : of the state
    reader : from which the schema has been read

    Raises
    ------
    CodecError
        where they are not finite, or of a layout that no ledger has.
    """
    if schema in _FULL:
        names, layout = _FULL[schema]
    else:
        width = reader.left[0]
        if width not in _LAYOUTS:
            raise CodecError("no state has such counts")
        names, layout = ("width", *_COMPACT), _LAYOUTS[width]
    counts = dict(zip(names, reader.unpack(layout), strict=True))
    counts.pop("width", None)
    if not all(map(math.isfinite, counts.values())):
        raise CodecError("the counts are no numbers")
    return counts
