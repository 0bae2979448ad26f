"""The four figures of the page of results, as SVG and PNG."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from loadtest.figures import panels_in
from loadtest.study.catalogue import CHANGES, CLICKS, FULL, STALLS
from loadtest.study.learners import MULTISCALE, SIXTH
from loadtest.study.tables import MAIN, NAMES, STALLED, World, of_group

PRINT_DPI = 300
WIDTH = 7.0
ROW_HEIGHT = 0.28
"""Inches."""
TITLE_WIDTH = 24
"""Letters in a line above a narrow panel."""
GROWTH_WORLDS = ("10 arms, gap .2, delay 50", "10 arms, .6 and .4, moved every 2,000")
COLOURS = {
    MULTISCALE: "#d55e00",
    "multiscale_waiting": "#e69f00",
    "centred_tsallis": "#009e73",
    "dexp3": "#0072b2",
    "thompson": "#4d4d4d",
    "thompson_provisional": "#999999",
    SIXTH: "#cc79a7",
}
MARKERS = dict(zip(COLOURS, "oDsv^<P", strict=True))
CLICK_LEARNERS = (MULTISCALE, "multiscale_waiting", "centred_tsallis", "thompson", "thompson_provisional")


def worlds_of(figure: str, worlds: Sequence[World]) -> list[World]:
    """Return the worlds that a figure shows."""
    if figure == "study_losses":
        return [world for world in of_group(worlds, FULL, CHANGES) if " W " not in world.name]
    if figure == "study_clicks":
        return [
            world for world in of_group(worlds, CLICKS, CHANGES) if " W " in world.name or "clicks" in world.name
        ]
    if figure == "study_growth":
        return [world for world in worlds if world.name in GROWTH_WORLDS]
    return of_group(worlds, STALLS)


def draw_all(worlds: Sequence[World], folder: Path) -> list[str]:
    """Draw the figures that have worlds, as .svg and .png, and return their names."""
    drawers: dict[str, Callable[[list[Any], list[World]], None]] = {
        "study_losses": lambda axes, shown: _dots(axes[0], shown, MAIN),
        "study_clicks": lambda axes, shown: _dots(axes[0], shown, CLICK_LEARNERS),
        "study_growth": _growth,
        "study_stalls": _stalls,
    }
    found = {name: shown for name in drawers if (shown := worlds_of(name, worlds))}
    for name, shown in found.items():
        is_tall = name in {"study_losses", "study_clicks"}
        panels, height = (1, 1.2 + ROW_HEIGHT * len(shown)) if is_tall else (len(shown), 3.0)
        paths = [folder / f"{name}{suffix}" for suffix in (".svg", ".png")]
        with panels_in(*paths, panels=panels, width=WIDTH, height=height, dpi=PRINT_DPI) as axes:
            drawers[name](axes, shown)
    return list(found)


def _dots(axes: Any, worlds: Sequence[World], learners: Sequence[str]) -> None:
    """Draw a row for each world, with a mark for each learner and bars of two standard errors."""
    for place, learner in enumerate(learners):
        rows = [(row, figure) for row, world in enumerate(worlds) if (figure := world.figure(learner))]
        offset = 0.12 * (place - (len(learners) - 1) / 2)
        at = [figure.mean for _, figure in rows], [row + offset for row, _ in rows]
        style = {"fmt": MARKERS[learner], "color": COLOURS[learner], "markersize": 4, "linewidth": 0.8}
        axes.errorbar(*at, xerr=[2 * figure.stderr for _, figure in rows], label=NAMES[learner], **style)
    axes.axvline(100, color="0.7", linestyle="-.", linewidth=0.8, label="uniform play")
    axes.set_yticks(range(len(worlds)), [world.name for world in worlds], fontsize=8)
    axes.set_xlim(left=min(0, axes.get_xlim()[0]))
    axes.invert_yaxis()
    axes.set_xlabel("regret, % of uniform play's (bars: two standard errors)")
    axes.figure.legend(loc="outside upper center", ncols=3, fontsize=8)


def _growth(panels: Sequence[Any], worlds: Sequence[World]) -> None:
    """Draw regret against slots on logarithmic axes, with a guide of slope 1/2."""
    for axes, world in zip(panels, worlds, strict=True):
        for learner in MAIN:
            if learner in world.cells:
                cell = world.cells[learner]
                axes.plot(cell["curve_slots"], cell["curve"], color=COLOURS[learner], label=NAMES[learner])
        cell = world.cells[MULTISCALE]
        slots = np.array(cell["curve_slots"])
        axes.plot(slots, cell["curve_uniform"], color="0.7", linestyle="-.", label="uniform play")
        guide = cell["curve_uniform"][0] * np.sqrt(slots / slots[0])
        axes.plot(slots, guide, color="0.3", linestyle=":", label="slope 1/2")
        axes.set(xscale="log", yscale="log", xlabel="slots $t$", ylabel=r"regret $\mathrm{Reg}_t$")
        axes.set_title(world.name, fontsize=8)
    panels[0].legend(fontsize=8)


def _stalls(panels: Sequence[Any], worlds: Sequence[World]) -> None:
    """Draw, for each world, the share of runs whose regret is at least so much of uniform play's."""
    for axes, world in zip(panels, worlds, strict=True):
        for learner in (MULTISCALE, SIXTH, "centred_tsallis", "thompson"):
            if learner in world.cells:
                ratios = np.sort(100 * world.regret(learner) / world.uniform())
                shares = 100 * (1 - np.arange(len(ratios)) / len(ratios))
                axes.step(ratios, shares, where="post", color=COLOURS[learner], label=NAMES[learner])
        axes.axvline(100 * STALLED, color="0.7", linestyle=":", linewidth=0.8)
        axes.set_title(textwrap.fill(world.name.replace(" W ", " W\N{NO-BREAK SPACE}"), TITLE_WIDTH), fontsize=8)
        axes.set_xlabel("regret, % of uniform play's", fontsize=8)
        axes.tick_params(labelsize=8, labelleft=axes is panels[0])
        axes.set_xlim(0, 150)
        axes.set_ylim(0, 100)
    panels[0].set_ylabel("runs with at least so much, %", fontsize=8)
    handles, labels = panels[0].get_legend_handles_labels()
    panels[0].figure.legend(handles, labels, loc="outside upper center", ncols=4, fontsize=8)
