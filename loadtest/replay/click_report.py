"""What a replay of clicks adds to the report."""

from __future__ import annotations

from typing import Any

import numpy as np

from loadtest.replay.click_stream import ClickStream
from loadtest.replay.plan import World
from loadtest.replay.replay import Record


def click_facts(world: World, stream: ClickStream, record: Record) -> dict[str, Any]:
    """Further fields of the summary; rates are per impression."""
    played = record.played
    world = world.head(played)
    clicked = record.losses == 0
    late = clicked & (stream.click_delays(played) > stream.after_seconds)
    expired = None if record.counts is None else record.counts.expired
    return {
        "impressions": played,
        "clicks": int(clicked.sum()),
        "click_rate": _share(clicked.sum(), played),
        "uniform_click_rate": _share(np.sum(1 - world.baseline().losses), played),
        "best_click_rate": _share(np.sum(1 - world.best_fixed().losses), played),
        "expired": expired,
        "expired_share": None if expired is None else _share(expired, played),
        "late_clicks": int(late.sum()),
        "late_share": _share(late.sum(), clicked.sum()),
        "stream": stream._asdict(),
        "total_delay": None,
    }


def _share(part: Any, whole: Any) -> float | None:
    return float(part / whole) if whole else None
