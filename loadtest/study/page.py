"""The tables of docs/results.md, between two marks, and its figures: computed from the file of results."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from loadtest.figures import panels_in
from loadtest.study import tables as shown_by
from loadtest.study.catalogue import CHANGES, CLICKS, FULL, STALLS, worlds
from loadtest.study.cells import save
from loadtest.study.learners import ENTRIES, MULTISCALE
from loadtest.study.tables import MAIN, NAMES, ON_CLICKS, STALLED, SURE, World, by_world, markdown, of_group

PRINT_DPI = 300
WIDTH = 7.0
ROW_HEIGHT = 0.28
"""Inches."""
TITLE_WIDTH = 24
"""Letters in a line above a narrow panel."""
GROWTH_WORLDS = ("10 arms, gap .2, delay 50", "10 arms, .6 and .4, moved every 2,000")
COLOURS = {MULTISCALE: "#d55e00", "multiscale_waiting": "#e69f00", "centred_tsallis": "#009e73"}
COLOURS |= {"dexp3": "#0072b2", "thompson": "#4d4d4d", "thompson_provisional": "#999999", "greedy": "#cc79a7"}
MARKERS = dict(zip(COLOURS, "oDsv^<P", strict=True))


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
        "study_losses": lambda axes, shown: _draw_dots(axes[0], shown, MAIN),
        "study_clicks": lambda axes, shown: _draw_dots(axes[0], shown, ON_CLICKS),
        "study_growth": _draw_growth,
        "study_stalls": _draw_stalls,
    }
    found = {name: shown for name in drawers if (shown := worlds_of(name, worlds))}
    for name, shown in found.items():
        is_tall = name in {"study_losses", "study_clicks"}
        panels, height = (1, 1.2 + ROW_HEIGHT * len(shown)) if is_tall else (len(shown), 3.0)
        paths = [folder / f"{name}{suffix}" for suffix in (".svg", ".png")]
        with panels_in(*paths, panels=panels, width=WIDTH, height=height, dpi=PRINT_DPI) as axes:
            drawers[name](axes, shown)
    return list(found)


def _draw_dots(axes: Any, worlds: Sequence[World], learners: Sequence[str]) -> None:
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


def _draw_growth(panels: Sequence[Any], worlds: Sequence[World]) -> None:
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


def _draw_stalls(panels: Sequence[Any], worlds: Sequence[World]) -> None:
    """Draw, for each world, the share of runs whose regret is at least so much of uniform play's."""
    for axes, world in zip(panels, worlds, strict=True):
        for learner in (MULTISCALE, "centred_tsallis", "thompson"):
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


MARKS = ("<!-- study: what follows is written by the command -->", "<!-- study: end -->")
LINE = 118
TEMPLATE = Path(__file__).with_name("page.md")
PLACE = re.compile(r"\{(table|figure) (\w+)(?:: (.*))?\}")
"""Where the template has a table, or a figure with its caption."""
INSTEAD = ("thompson", "thompson_provisional", "greedy", *shown_by.LIBRARY_LEARNERS)
"""What a user could install or write instead of this service."""


def section(results: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the text between the marks: the template with its numbers, without the parts whose table has no rows.

    Parameters
    ----------
    results : as ``cells.load`` reads them
    """
    found = _in_order(by_world(results))
    made = shown_by.tables(found)

    def fill(place: re.Match[str]) -> str:
        kind, name, caption = place.groups()
        if kind == "table":
            return made[name]
        shown = worlds_of(name, found)
        return f"![{caption}. {seeds_text(shown)}](results/{name}.png)" if shown else ""

    values = {
        "losses": _losses(found),
        "wins": _wins(found),
        "lost": (lost := sum(any(world.worse(MULTISCALE, key) for key in INSTEAD) for world in found)),
        "share": round(100 * lost / len(found)),
        "sure": f"{SURE:.0f}",
        "uniform": sum(world.worse(MULTISCALE, "uniform") for world in found),
        "not_played": _not_played(found),
        "worlds": len(found),
        "clicks": sum(" W " in world.name or "clicks" in world.name for world in found),
        "stalled": STALLED,
        "minutes": round(sum(cell["seconds"] for world in found for cell in world.cells.values()) / 60),
    }
    begin, *parts = TEMPLATE.read_text("utf-8").strip().split("\n\n### ")
    texts = [text.format(**values) for text in begin.split("\n\n")]
    texts = [text if " | " in text else wrapped(text) for text in texts]
    for part in parts:
        if (place := PLACE.search(part)) and place[2] in made:
            texts += f"### {PLACE.sub(fill, part)}".split("\n\n")
    return "\n\n".join(filter(None, texts))


def _in_order(found: Mapping[str, World]) -> list[World]:
    names = [world.name for world in _catalogue()]
    return sorted(found.values(), key=lambda world: names.index(world.name) if world.name in names else len(names))


def _catalogue() -> list[Any]:
    return [world for group in worlds(None).values() for world in group]


def _losses(found: Sequence[World]) -> str:
    """Return a table of the worlds in which another learner is surely better than multiscale Tsallis."""
    rows = [["world", "ours", "best other", "standard errors"]]
    for world in found:
        gaps = {key: world.excess(MULTISCALE, key)[0] for key in NAMES if world.worse(MULTISCALE, key)}
        if best := max(gaps, key=lambda key: gaps[key], default=""):
            other = f"{world.text(best)}, {NAMES[best]}"
            name = f"{world.name} \\*" if "uniform" in gaps else world.name
            rows.append([name, world.text(MULTISCALE), other, f"{world.surely(MULTISCALE, best):.1f}"])
    return markdown(rows)


def _wins(found: Sequence[World]) -> str:
    """Say how often multiscale Tsallis is surely better than the other learners of the tables."""
    rivals = [key for key in COLOURS if key != MULTISCALE]
    counts = {key: [world.worse(key, MULTISCALE) for world in found if key in world.cells] for key in rivals}
    return "; ".join(f"{NAMES[key]} in {sum(wins)} of {len(wins)}" for key, wins in counts.items() if wins)


def wrapped(text: str) -> str:
    """Return a paragraph in lines that an editor can show."""
    return textwrap.fill(text, LINE, break_long_words=False, break_on_hyphens=False)


def _not_played(found: Sequence[World]) -> str:
    """Say what of the whole study is not among the results."""
    slots = {world.name: world.slots for world in found}
    missing = [world.name for world in _catalogue() if slots.get(world.name, 0) < world.slots]
    keys = {key for world in found for key in world.cells}
    missing += [entry.name for entry in ENTRIES if entry.key not in keys]
    text = (
        f"For want of time these were not played, or not to the end: {'; '.join(missing)}. The command plays all."
    )
    return f"**Not the whole study.** {text}" if missing else ""


def seeds_text(found: Sequence[World]) -> str:
    """Return the seeds of a picture in words."""
    counts = sorted({world.seeds for world in found})
    most = int(np.max(counts))
    return f"Seeds 0 to {most - 1}" if len(counts) == 1 else f"Seeds 0 to {counts[0] - 1}, or up to {most - 1}"


def write(results: Mapping[str, Mapping[str, Any]], path: Path) -> None:
    """Write the section of the page, and into ``results`` beside it its figures and the results they show."""
    folder = path.parent / "results"
    folder.mkdir(parents=True, exist_ok=True)
    # The curves that no figure shows are left out.
    kept = {
        key: {name: value for name, value in cell.items() if cell["world"] in GROWTH_WORLDS or "curve" not in name}
        for key, cell in results.items()
    }
    save(folder / "study.json", kept)
    draw_all(_in_order(by_world(kept)), folder)
    write_between(MARKS, section(kept), path)


def write_between(marks: tuple[str, str], section: str, page: Path) -> None:
    """Write another section between the marks of a page."""
    page.write_text(page_with(page.read_text("utf-8"), marks, section), encoding="utf-8")


def page_with(page: str, marks: tuple[str, str], section: str) -> str:
    """Return a page with another section between its marks."""
    begin, end = marks
    before, _, rest = page.partition(begin)
    return f"{before}{begin}\n\n{section}\n\n{end}{rest.partition(end)[2]}"
