"""Times and means as views and lists show them."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache

MEAN_DIGITS = 12
"""Digits of a mean: those behind are of rounding."""


def time_text(unix_seconds: float) -> str:
    """Return a time as views show it: RFC 3339 in UTC, to the millisecond.

    Microseconds are rounded and those below a millisecond cut off, as ``isoformat`` does it in four times the time.
    """
    whole = int(unix_seconds)
    micros = round((unix_seconds - whole) * 1_000_000)
    minute, second = divmod(whole + micros // 1_000_000, 60)
    return f"{_minute(minute)}{second:02}.{micros // 1000 % 1000:03}Z"


@lru_cache(maxsize=1024)
def _minute(number: int) -> str:
    """Return a minute since 1970 as a time begins with it."""
    return datetime.fromtimestamp(60 * number, UTC).strftime("%Y-%m-%dT%H:%M:")


def shown_mean(mean: float) -> float:
    """Return a mean as views and lists show it: without the last digits, which depend on the order of additions."""
    return float(f"{mean:.{MEAN_DIGITS}g}")
