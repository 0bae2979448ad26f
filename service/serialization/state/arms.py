"""The arms of a session as bytes, where they have changed since its creation.

They are the live arms as an array, from schema 2 on the paused ones as another, and the labels of the arms that
came after the start as JSON.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from weakref import WeakKeyDictionary

import numpy as np

from ...engine.arm_run import Arms
from ..binary import CodecError, Writer, foreign
from ..binary.reader import Reader
from .schemas import COMPACT, SCHEMA

_ENCODED_ARMS: WeakKeyDictionary[Arms, dict[int, bytes]] = WeakKeyDictionary()
"""Arms to schema to bytes."""


def encode_arms(arms: Arms, schema: int) -> bytes:
    """Return the bytes of arms that changed; they are made once for each ``Arms``.

    Parameters
    ----------
    arms : of a session that was created with labels
    schema : of the state in which they stand
    """
    by_schema = _ENCODED_ARMS.setdefault(arms, {})
    if schema not in by_schema:
        writer = Writer(compact=schema >= COMPACT)
        writer.integers(np.array(arms.live, dtype="<i8"))
        if schema > 1:
            writer.integers(np.array(sorted(arms.paused), dtype="<i8"))
        by_schema[schema] = b"".join(writer.parts) + json.dumps(arms.added, separators=(",", ":")).encode()
    return by_schema[schema]


def decode_arms(data: bytes, known: Arms, first_names: Sequence[str] | None, schema: int = SCHEMA) -> Arms:
    """Read the arms of a session.

    Parameters
    ----------
    data : ``Decoded.arms``; empty where arms never changed
    known : arms of the same session at some moment, which are returned where they are the ones read
    first_names : labels the session was created with; None without labels
    schema : ``Decoded.schema``

    Raises
    ------
    CodecError
        for anything ``encode_arms`` did not write.
    """
    if data == (b"" if known.added is None else encode_arms(known, max(schema, 2 if known.paused else 1))):
        return known
    if first_names is None:
        raise CodecError("arms without labels never change")
    if not data:
        return Arms.of(len(first_names), first_names)
    reader = Reader(memoryview(data), compact=schema >= COMPACT)
    with foreign("the arms of this session"):
        live = reader.integers()
        paused = reader.integers() if schema > 1 else live[:0]
        added = json.loads(bytes(reader.left))
    if not isinstance(added, list) or not all(isinstance(name, str) for name in added):
        raise CodecError("not labels of arms")
    ascending = live.ndim == 1 and live.size and live[0] >= 0 and np.all(live[1:] > live[:-1])
    if not ascending or live[-1] >= len(first_names) + len(added):
        raise CodecError("not the arms of this session")
    if paused.ndim != 1 or not np.isin(paused, live).all() or np.unique(paused).size != paused.size:
        raise CodecError("not the paused arms of this session")
    return Arms.at(first_names, added, live.tolist(), paused.tolist())
