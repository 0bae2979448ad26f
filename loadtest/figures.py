"""Figures in the manner of a paper: normalised regret against slots."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from service.learners.base import FloatArray, IntArray

DISPLAY_NAMES = {
    "dexp3": "DEXP3",
    "dbgd": "DBGD",
    "exp3": "EXP3",
    "exp3_current": "EXP3, current p",
    "bold": "BOLD",
    "clw": "CLW",
    "ogd": "OGD",
    "solid": "SOLID",
    "mbco": "(K+1)-point BCO",
    "clw_mbco": "CLW-BCO",
    "centred_tsallis": "centred Tsallis",
}
STYLE: dict[Any, Any] = {
    "font.family": "serif",
    "mathtext.fontset": "cm",
    "font.size": 9,
    "axes.linewidth": 0.7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "lines.linewidth": 1.4,
    "xtick.direction": "in",
    "ytick.direction": "in",
}
WIDTH, HEIGHT, DPI = 4.6, 3.2, 160
"""A column of a paper, in inches."""
MAX_POINTS = 2000
"""More points on a line than the picture has pixels only make it slow."""


def display_name(kind: str) -> str:
    """What the literature calls a learner."""
    return DISPLAY_NAMES.get(kind, kind)


@contextmanager
def figure(path: Path) -> Iterator[Any]:
    """Axes for a regret plot; the figure is written to ``path`` when the block ends."""
    import matplotlib as mpl  # slow to load, and not every command draws
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with mpl.rc_context(STYLE):
        drawing = Figure(figsize=(WIDTH, HEIGHT), layout="constrained")
        FigureCanvasAgg(drawing)
        axes = drawing.add_subplot()
        axes.set_xlabel("time slots $t$")
        axes.set_ylabel(r"normalised regret $\mathrm{Reg}_t / T$")
        yield axes
        drawing.savefig(path, dpi=DPI)


def plot_replay(
    slots: IntArray, regret: FloatArray, baseline: FloatArray, names: tuple[str, str], path: Path
) -> None:
    """One learner beside a player who never learns."""
    step = max(1, -(-len(slots) // MAX_POINTS))
    with figure(path) as axes:
        axes.plot(slots[::-step], baseline[::-step], color="0.45", linestyle="--", label=names[1])
        axes.plot(slots[::-step], regret[::-step], color="C0", label=names[0])
        axes.axhline(0.0, color="0.8", linewidth=0.6, zorder=0)
        if len(slots):
            axes.set_xlim(0, slots[-1])
        axes.set_ylim(bottom=min(0.0, 1.05 * min(regret.min(initial=0.0), baseline.min(initial=0.0))))
        axes.legend(loc="upper left")
