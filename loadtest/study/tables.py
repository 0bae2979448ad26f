"""Tables of the page of results, as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from loadtest.study.catalogue import CHANGES, CLICKS, FULL, LIBRARIES, STALLS, WEARY
from loadtest.study.learners import ENTRIES, MULTISCALE, SIXTH
from loadtest.study.results import World

NAMES = {entry.key: entry.name for entry in ENTRIES}
NOT_PLAYED = "-"
MAIN = (MULTISCALE, "centred_tsallis", "dexp3", "thompson")
ON_CLICKS = (MULTISCALE, "multiscale_waiting", "centred_tsallis", "dexp3", "thompson", "thompson_provisional")
OTHERS = ("dexp3_theorem", "exp3", "exp3_current", "bold", "clw", "batched_exp3", "tsallis_delayed")
LIBRARY_LEARNERS = tuple(entry.key for entry in ENTRIES if entry.needs)


def table(worlds: Sequence[World], learners: Sequence[str]) -> str:
    """Return a table of worlds and learners; learners and worlds without a result are left out."""
    shown = [learner for learner in learners if any(learner in world.cells for world in worlds)]
    rows = [["world", "T", "seeds", *(NAMES.get(learner, learner) for learner in shown)]]
    for world in worlds:
        figures = [world.figure(learner) for learner in shown]
        if any(figures):
            texts = [NOT_PLAYED if figure is None else figure.text for figure in figures]
            rows.append([world.name, f"{world.slots:,}", str(world.seeds), *texts])
    return markdown(rows)


def markdown(rows: Sequence[Sequence[str]]) -> str:
    """Return rows, the first of them the head, as a Markdown table."""
    lines = [f"| {' | '.join(row)} |" for row in rows]
    lines.insert(1, "|" + "---|" * len(rows[0]))
    return "\n".join(lines)


def of_group(worlds: Iterable[World], *groups: str) -> list[World]:
    """Return the worlds of these groups, in their order."""
    return [world for world in worlds if world.group in groups]


def tables(worlds: Sequence[World]) -> dict[str, str]:
    """Return each table of the page that has rows, by name."""
    compared = [world for world in worlds if any(learner in world.cells for learner in OTHERS)]
    asked = {
        "full": (of_group(worlds, FULL), MAIN),
        "clicks": (of_group(worlds, CLICKS), ON_CLICKS),
        "changes": (of_group(worlds, CHANGES), ON_CLICKS),
        "weary": (of_group(worlds, WEARY), ON_CLICKS),
        "stalls": (of_group(worlds, STALLS), (*MAIN, SIXTH)),
        "libraries": (of_group(worlds, LIBRARIES), (*MAIN, *LIBRARY_LEARNERS)),
        "compared": (compared, (MULTISCALE, *OTHERS)),
    }
    made = {name: table(rows, learners) for name, (rows, learners) in asked.items()}
    made["sixth"] = sixth_table(worlds)
    return {name: text for name, text in made.items() if text.count("\n") > 1}


def sixth_table(worlds: Sequence[World]) -> str:
    """Return multiscale Tsallis beside itself with the sixth expert, in the mean over the worlds of a group."""
    rows = [
        ["worlds", "number", NAMES[MULTISCALE], "with the sixth expert", "stalled runs", "with it", "cost of it"]
    ]
    titles = {FULL: "all losses", CLICKS: "clicks", CHANGES: "moving", STALLS: "of the table of stalls"}
    for group, title in titles.items():
        both = [world for world in of_group(worlds, group) if {MULTISCALE, SIXTH} <= world.cells.keys()]
        if both:
            rows.append([title, str(len(both)), *_both(both)])
    return markdown(rows)


def _both(worlds: Sequence[World]) -> list[str]:
    means, stalls, seconds = [], [], []
    for learner in (MULTISCALE, SIXTH):
        figures = [figure for world in worlds if (figure := world.figure(learner))]
        means.append(f"{np.mean([figure.mean for figure in figures]):.1f}")
        stalls.append(f"{100 * np.mean([figure.stalled for figure in figures]):.1f} %")
        seconds.append(sum(world.cells[learner]["seconds"] for world in worlds))
    return [*means, *stalls, f"{seconds[1] / max(seconds[0], 0.01):.1f} x"]
