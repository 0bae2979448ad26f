"""Figures in the manner of a paper: normalised regret against slots."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from service.learners import REGISTRY
from service.learners.base import FloatArray, IntArray

STYLE = Path(__file__).with_suffix(".mplstyle")
WIDTH, HEIGHT, DPI = 4.6, 3.2, 160
"""A column of a paper, in inches."""
LEGEND_WIDTH = 1.8
"""Room beside the axes for a legend too long to lie in them."""
LINES: dict[str, tuple[str, str, str]] = {
    "exp3": ("EXP3, no delay", "#4d4d4d", "-"),
    "bold": ("BOLD, slots known", "#e69f00", "-"),
    "dexp3": ("DEXP3", "#0072b2", "-"),
    "clw": ("CLW, blocks", "#009e73", "-"),
    "clw_random": ("CLW, random", "#009e73", "--"),
    "exp3_current": ("EXP3 with current $p$", "#cc79a7", ":"),
    "dexp3_anytime": ("DEXP3, anytime", "#0072b2", "--"),
    "centred_tsallis": ("centred Tsallis", "#d55e00", "-"),
    "uniform": ("uniform play", "0.7", "-."),
    "ogd": ("OGD, no delay", "#4d4d4d", "-"),
    "mbco": ("$(K+1)$-point BCO, no delay", "#e69f00", "--"),
    "solid": ("SOLID", "#cc79a7", "-"),
    "dbgd": ("DBGD", "#0072b2", "--"),
    "clw_mbco": ("CLW-BCO, blocks", "#009e73", "-"),
    "clw_mbco_random": ("CLW-BCO, random", "#009e73", "--"),
    "dbgd_anytime": ("DBGD, anytime rates", "#d55e00", "-"),
}
"""Name, colour and dashes of a learner's line, by its key in an experiment."""
BAND = 2.0
"""Half width of the bands, in standard errors."""
MAX_POINTS = 2000
"""More points on a line than the picture has pixels only make it slow."""


def display_name(kind: str) -> str:
    """Return the learner's name, with which the docstring of its specification begins; other texts as they are."""
    return (REGISTRY[kind].__doc__ or kind).partition(":")[0] if kind in REGISTRY else kind


@contextmanager
def panels_in(*paths: Path, panels: int, width: float, height: float, dpi: int) -> Iterator[list[Any]]:
    """Yield axes beside each other; the figure is written to each of ``paths`` when the block ends."""
    import matplotlib as mpl  # slow to load, and not every command draws
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with mpl.rc_context(fname=STYLE):
        drawing = Figure(figsize=(width, height), layout="constrained")
        FigureCanvasAgg(drawing)
        yield drawing.subplots(1, panels, squeeze=False)[0].tolist()
        for path in paths:
            drawing.savefig(path, dpi=dpi, metadata={"Date": None} if path.suffix == ".svg" else None)


@contextmanager
def figure(*paths: Path, width: float = WIDTH) -> Iterator[Any]:
    """Axes for a regret plot; the figure is written to each of ``paths`` when the block ends."""
    with panels_in(*paths, panels=1, width=width, height=HEIGHT, dpi=DPI) as (axes,):
        axes.set_xlabel("time slots $t$")
        axes.set_ylabel(r"normalised regret $\mathrm{Reg}_t / T$")
        yield axes


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


def plot_experiment(learners: Mapping[str, Mapping[str, Any]], path: Path) -> None:
    """All learners of an experiment that have a line, with bands of two standard errors."""
    with figure(path, width=WIDTH + LEGEND_WIDTH) as axes:
        for key, (name, colour, dashes) in LINES.items():
            if key in learners:
                curve = learners[key]
                slots, mean, spread = (np.array(curve[part]) for part in ("curve_slots", "curve", "curve_stderr"))
                axes.plot(slots, mean, color=colour, linestyle=dashes, label=name)
                axes.fill_between(slots, mean - BAND * spread, mean + BAND * spread, color=colour, alpha=0.2, lw=0)
                axes.set_xlim(0, slots[-1])
        axes.figure.legend(loc="outside right center", fontsize=8)


def plot_scaling(studies: Mapping[str, Mapping[str, Any]], path: Path) -> None:
    """Reg_T on double logarithmic axes, one line per study."""
    with figure(path, width=WIDTH + LEGEND_WIDTH) as axes:
        for name, study in studies.items():
            against = study["against"].replace("d-bar", r"\bar{d}")
            label = f"{display_name(name.partition('_')[0])}, ${against}$: {study['slope']:.2f}"
            axes.errorbar(study["x"], study["regret"], study["stderr"], marker="o", markersize=3, label=label)
        axes.set(xscale="log", yscale="log", xlabel="$T$, or what the bound is the root of (slopes beside)")
        axes.set_ylabel(r"regret $\mathrm{Reg}_T$")
        axes.figure.legend(loc="outside right center", fontsize=8)
