"""What every commit writes for lists, in few bytes: beside states from ``PACKED_COUNTS`` on, which 1.0 refuses.

Layout, little-endian: form (1 byte), bytes of a count (1 byte), the counts, as float64 (NaN for None) the times of
the last act and event, the mean, ``effective_arms`` and the learner's rates, as JSON what few sessions have, CRC-32
of all before it and the session's version. Names that depend on the session are in what seldom changes.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Any

from pydantic_core import from_json, to_json

from ..engine.run import Run
from .binary import CHECKSUM_BYTES, checksum, width_of
from .shown import time_text

FORM = 1
"""First byte; the older form is JSON."""
_counts = attrgetter("slot", "feedbacks", "outstanding", "expired", "removed", "voided", "total_delay")
_NAN = float("nan")


def encode(run: Run, version: str, mean: float | None, effective: float | None, others: Mapping[str, Any]) -> bytes:
    """Return the bytes of what a commit changes of a session's view.

    Parameters
    ----------
    run : of the session, after the commit
    version : that the commit makes
    mean : as views show it
    effective : ``effective_arms`` of a moment ago; None over points
    others : fields that few sessions have
    """
    ledger, (_, *rates) = run.ledger, run.learner.rates(run.state).values()
    counts = _counts(ledger)
    width = width_of(counts)
    numbers = (ledger.last_act_at, ledger.last_event_at, mean, effective, *rates)
    floats = [_NAN if number is None else number for number in numbers]
    body = _layout(width, len(rates)).pack(FORM, width, *counts, *floats)
    if others:
        body += to_json(others)
    return body + checksum(body + version.encode())


def decode(data: bytes, version: str, names: Sequence[str]) -> dict[str, Any]:
    """Read what ``encode`` wrote.

    Parameters
    ----------
    data : that it returned
    version : of the session now
    names : of the mean, the mode of the rates, and the names of these

    Returns
    -------
    The fields of a view that every commit may change, in the order of views.

    Raises
    ------
    ValueError, KeyError, IndexError, TypeError, struct.error
        where the bytes are not of this version, or the names not of this session.
    """
    body = data[:-CHECKSUM_BYTES]
    if checksum(body + version.encode()) != data[-CHECKSUM_BYTES:]:
        raise ValueError("not of this version")
    mean, mode, *rates = names
    layout = _layout(body[1], len(rates))
    _, _, slot, feedbacks, outstanding, expired, removed, voided, total_delay, *floats = layout.unpack_from(body)
    acted_at, event_at, shown_mean, effective, *values = [None if x != x else x for x in floats]
    others = from_json(body[layout.size :]) if len(body) > layout.size else {}
    return {
        "rates": {"rates": mode, **dict(zip(rates, values, strict=True))},
        "slot": slot,
        "feedbacks": feedbacks,
        "outstanding": outstanding,
        "expired": expired,
        "removed": removed,
        "voided": voided,
        "total_delay": total_delay,
        mean: shown_mean,
        "last_act_at": time_text(acted_at) if acted_at else None,
        "last_event_at": time_text(event_at) if event_at else None,
        "hints": others.pop("hints", []),
        **others,
        **({} if effective is None else {"effective_arms": effective}),
    }


@lru_cache(maxsize=64)
def _layout(width: int, n_rates: int) -> struct.Struct:
    kind = {1: "b", 2: "h", 4: "i", 8: "q"}[width]
    return struct.Struct(f"<BB7{kind}{4 + n_rates}d")
