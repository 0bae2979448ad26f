"""The log of DEXP3: a distribution and the events since, from which a reader makes the state again.

Of few arms p_open is stored, and the events since the slot opened. Of many no state has a vector: the log is stored
beside it, and a commit adds its events.
"""

from __future__ import annotations

from .base import FloatArray, Log, Steps

MAX_STEPS = 32
"""Most events since the slot opened by which p is stored."""
LOGGED_ARMS = 1_000
"""Arms from which on a session is stored as a log; with fewer, p_open is stored, and the few steps since."""
KEPT_STEPS = 128
"""Most events in a log after which, when a slot opens, another begins."""
ARMS_PER_STEP = 32
"""Arms for which a log has one event more: fewer arms are sooner stored anew than many events are read."""


def kept_steps(n_arms: int) -> int:
    """Return after how many events another log begins, when a slot opens."""
    return min(KEPT_STEPS, n_arms // ARMS_PER_STEP)


def at_start(p: FloatArray) -> Log | None:
    """Return the log before slot 1 at ``p``, shape (n_arms,); None of many arms, whose log begins with the slot."""
    return Log(p, (), 0) if p.size < LOGGED_ARMS else None


def at_opening(log: Log | None, p: FloatArray) -> Log | None:
    """Return the log of a slot that opens at ``p``: the same as long as it may grow, else one that begins here.

    Parameters
    ----------
    log : of the slot before; None where it is not known
    p : after the latest event, shape (..., n_arms)

    Returns
    -------
    the log; None for many runs at once, which are not stored
    """
    if log is not None and log.is_stored and len(log.steps) < kept_steps(p.size):
        return log._replace(opened=len(log.steps))
    return Log(p, (), 0, p.size >= LOGGED_ARMS) if p.ndim == 1 else None


def with_steps(log: Log | None, steps: Steps) -> Log | None:
    """Return the log with more events; None where they are too many, or where it was not known before.

    Parameters
    ----------
    log : of the open slot
    steps : what the events did, in their order
    """
    if log is None:
        return None
    most = 2 * kept_steps(log.base.size) if log.is_stored else MAX_STEPS
    if len(log.steps) + len(steps) > most:
        return None
    return Log(log.base, log.steps + steps, log.opened, log.is_stored)


def read(log: Log, p_open: FloatArray) -> Log:
    """Return a log that was read as it is kept from now on: stored or not, by its number of arms.

    Parameters
    ----------
    log : as it was stored
    p_open : to which its steps before the open slot lead
    """
    if log.base.size >= LOGGED_ARMS:
        return log._replace(is_stored=True)
    return Log(p_open, log.steps[log.opened :], 0)
