"""Waiting for conditions, within a time."""

from __future__ import annotations

import time
from collections.abc import Callable

from loadtest.errors import LoadTestError

START_SECONDS = 60.0


def wait_until(holds: Callable[[], object], what: str, seconds: float = START_SECONDS) -> float:
    """Wait until the condition holds and return the seconds it took.

    Raises
    ------
    LoadTestError
        where it does not hold within ``seconds``; the text names ``what``.
    """
    started = time.monotonic()
    while not holds():
        if time.monotonic() - started > seconds:
            raise LoadTestError(f"{what}: not within {seconds:g} s")
        time.sleep(0.01)
    return time.monotonic() - started
