"""States that are stored as a vector and what events did to it since.

Of few arms the vector is that of the open slot, and events stand behind the state: their number (1 byte), their
arms (uint32 each), and the factors of their weights. Of many arms the state has no vectors, and behind it stand
``LOGGED``, the number of events, and how many of them came before the open slot (uint32 each). What was logged are
rows beside the state: the vector, then for each commit the arms, factors and least weights of its events, which
later commits leave as they are. A log that is long begins again when a slot opens: see the learner.

A reader makes the events again. They only multiply, add, divide and compare doubles, so the bits are the same on
every processor.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import Any

import numpy as np

from ..learners.base import Log, Rows
from .binary import BYTE, BYTES, CodecError, Writer
from .binary.reader import Reader

LOGGED = 255
"""In place of the number of events."""
MAX_EVENTS = 1024
"""Most events of a log: more than a learner keeps."""
EVENT_BYTES = 12
_LOGGED_HEAD = struct.Struct("<II")
_NONE = np.zeros(0)


def is_unread(state: Any) -> bool:
    """Return whether the vectors of a state that was read are still to be made of rows."""
    log: Log | None = getattr(state, "log", None)
    return log is not None and not log.base.size


def log_of(state: Any, least_arms: int) -> Log | None:
    """Return the log of a state as it may be stored.

    Parameters
    ----------
    state : NamedTuple with ``log``
    least_arms : with fewer, a log begins at the opening of the slot and stands behind the state
    """
    log: Log | None = state.log
    if log is None or not log.is_stored or log.base.size >= least_arms:
        return log
    return Log(state.p_open, log.steps[log.opened :], 0)


def shortened(state: Any, least_arms: int) -> Any:
    """Return a state with the vectors that are stored: those at the opening of its slot, or none, or all.

    Parameters
    ----------
    state : NamedTuple with ``log``
    least_arms : as for ``log_of``
    """
    log = log_of(state, least_arms)
    if log is None:
        return state
    if log.is_stored:
        return state._replace(p=_NONE, p_open=_NONE)
    if len(log.steps) * EVENT_BYTES >= state.p.nbytes or len(log.steps) >= LOGGED:
        return state._replace(log=None)
    return state._replace(p=log.base, p_open=log.base, log=log)


def write(writer: Writer, state: Any) -> None:
    """Write what follows a state that was ``shortened``.

    Parameters
    ----------
    writer : to which the state's fields have been written
    state : NamedTuple with ``log``, as ``shortened`` gave it
    """
    log: Log | None = state.log
    if log is None or (not log.steps and not log.is_stored):
        writer.parts.append(BYTES[0])
    elif log.is_stored:
        writer.parts += (BYTES[LOGGED], _LOGGED_HEAD.pack(len(log.steps), log.opened))
    else:
        arms, factors, _ = zip(*log.steps, strict=True)
        writer.parts += (BYTES[len(arms)], _layout(len(arms)).pack(*arms, *factors))


@lru_cache(maxsize=256)
def _layout(count: int) -> struct.Struct:
    return struct.Struct(f"<{count}I{count}d")


def read(reader: Reader, state: Any) -> Any:
    """Read what follows a state, and return the state after it; rows that belong to it are still to be read.

    Parameters
    ----------
    reader : from which the state's fields have been read
    state : NamedTuple of these fields, with ``log`` at its default

    Raises
    ------
    CodecError, IndexError, ValueError
        where ``write`` did not write these bytes behind this state.
    """
    (count,) = reader.unpack(BYTE)
    if count == LOGGED:
        steps, opened = reader.unpack(_LOGGED_HEAD)
        if not opened <= steps <= MAX_EVENTS or state.p.size or state.p_open.size:
            raise CodecError("not a state with a log")
        return state._replace(log=Log(_NONE, ((0, 1.0, 0.0),) * steps, opened))
    numbers = reader.unpack(_layout(count))
    if state.p is not state.p_open:
        if count:
            raise CodecError("not a state at the opening of its slot")
        return state
    if not state.p.size:
        raise CodecError("a state without arms")
    least = state.probability_floor / len(state.p)
    steps = tuple((arm, factor, least) for arm, factor in zip(numbers[:count], numbers[count:], strict=True))
    after = state.replayed(Log(state.p, steps, 0))
    return after if steps or not after.log.is_stored else state


def rows_of(state: Any, stored: Rows) -> Rows:
    """Return the rows of a state with a log.

    Parameters
    ----------
    state : NamedTuple whose ``log`` is stored
    stored : the rows that the store has, of an earlier state of the same session; () for none

    Returns
    -------
    float64 arrays: the vector, shape (n_arms,), then for each commit its events, (3 * n_events,). Those that are in
    ``stored`` are the same objects.
    """
    log: Log = state.log
    kept = stored if stored and stored[0] is log.base else (log.base,)
    new = log.steps[sum(row.size // 3 for row in kept[1:]) :]
    return (*kept, np.array(new).T.ravel()) if new else kept


def replayed(state: Any, rows: Rows) -> Any:
    """Return a state with the vectors that its rows lead to.

    Parameters
    ----------
    state : one that ``is_unread``
    rows : as ``rows_of`` gives them: shape (n_arms,), then for each commit (3 * n_events,)

    Raises
    ------
    CodecError, IndexError, ValueError
        where the rows are not those of this state.
    """
    base, *parts = rows
    columns = [part.reshape(3, -1).T for part in parts]
    steps = tuple((int(arm), factor, least) for part in columns for arm, factor, least in part.tolist())
    if len(steps) != len(state.log.steps) or any(arm < 0 for arm, _, _ in steps):
        raise CodecError("the rows are not those of this state")
    after = state.replayed(Log(base, steps, state.log.opened))
    if not (np.isfinite(after.p).all() and np.isfinite(after.p_open).all()):
        raise CodecError("the rows are not those of this state")
    return after
