"""The picture of growth: times and waits against sizes, on logarithmic axes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from loadtest.bench.growth.rows import OF_G, PER_SECOND, Row
from loadtest.study.pictures import panels_in

HEIGHT = 4.6
COLOURS = {
    "sessions": "#0072b2",
    "arms": "#d55e00",
    "outstanding decisions": "#009e73",
    "events in a call": "#cc79a7",
    "workers": "#4d4d4d",
}
"""Of what grows; rows of the same differ in their marks."""
MARKERS = "osD^vPX*"


def draw(rows: Sequence[Row], path: Path) -> None:
    """Draw times on the left and the longest waits on the right, as .svg and .png."""
    shown = [row for row in rows if row.unit != OF_G]
    with panels_in(path, 2, HEIGHT) as (times, waits):
        for row, marker in _with_markers(shown):
            style = {"color": COLOURS[row.grows], "marker": marker, "markersize": 4, "linewidth": 1}
            sizes = [step.size for step in row.steps]
            label = f"{row.grows}: {row.name}{', inverse of the rate' if row.unit == PER_SECOND else ''}"
            times.plot(sizes, row.times([step.median for step in row.steps]), label=label, **style)
            waits.plot(sizes, [step.livez_ms for step in row.steps], **style)
        for axes in (times, waits):
            axes.set(xscale="log", yscale="log", xlabel="size")
        _guide(times)
        times.set_ylabel("time, ms")
        waits.set_ylabel("longest wait of GET /livez meanwhile, ms")
        times.figure.legend(loc="outside upper center", ncols=2, fontsize=6)


def _with_markers(rows: Sequence[Row]) -> list[tuple[Row, str]]:
    """Give rows of the same thing that grows marks of their own."""
    seen: dict[str, int] = {}
    found = []
    for row in rows:
        found.append((row, MARKERS[seen.get(row.grows, 0) % len(MARKERS)]))
        seen[row.grows] = seen.get(row.grows, 0) + 1
    return found


def _guide(axes: Any) -> None:
    """Draw a line of slope 1."""
    low, high = axes.get_ylim()
    axes.plot([1_000, 1_000_000], [1, 1_000], color="0.6", linestyle=":", label="exponent 1")
    axes.set_ylim(low, high)
