"""Changing the window and the floor of a session that runs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .act_times import PER_WINDOW, ActTimes
from .arm_run import ArmRun
from .params import Expiry
from .run import Run


def with_window_and_floor(run: Run, expiry: Expiry | None, floor: float) -> Run:
    """Return the run with another window and floor; open decisions have the new window from their act on.

    Decisions that were opened without a window have theirs from now on. They expire to the accuracy of the wider of
    the two kinds of buckets.

    Parameters
    ----------
    run : the session's; it stays as it is, and shares its counts and state with the one returned
    expiry : the new window; None: decisions expire no more
    floor : share of the draws that is uniform over the eligible arms, in [0, 1)
    """
    times = None if expiry is None else _times(run, expiry)
    return replace(run, params=run.params._replace(expiry=expiry, floor=floor), act_times=times)


def _times(run: Run, expiry: Expiry) -> ActTimes:
    width, before, now = expiry.after_seconds / PER_WINDOW, run.act_times, run.ledger.time
    if before is not None and before.width == width:
        return before
    times, present = ActTimes(width), int(now // width)
    if before is None:
        outstanding = run.ledger.by_arm if isinstance(run, ArmRun) else np.array([run.ledger.outstanding])
        if run.ledger.outstanding:
            times.acts[present] = outstanding.copy()
    else:
        for bucket, acts in before.acts.items():
            # No act of a bucket that is still open is later than now.
            number = min(int((bucket + 1) * before.width // width), present)
            known = times.acts.get(number, acts[:0])
            summed = np.zeros(max(known.size, acts.size), dtype=np.int64)
            summed[: known.size] += known
            summed[: acts.size] += acts
            times.acts[number] = summed
    times.changed = set(times.acts)
    return times
