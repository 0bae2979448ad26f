"""The page of results, docs/results.md: all of its numbers are computed from the file of results."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from loadtest.study.catalogue import STALLS, WEARY, worlds
from loadtest.study.cells import save
from loadtest.study.learners import ENTRIES, MULTISCALE
from loadtest.study.pictures import GROWTH_WORLDS, draw_all, worlds_of
from loadtest.study.tables import STALLED, SURE, World, by_world, percent, tables

LINE = 118
TEMPLATE = Path(__file__).with_name("page.md")
PLACE = re.compile(r"\{(table|figure) (\w+)(?:: (.*))?\}")
"""Where the template has a table, or a figure with its caption."""
RIVALS = {
    "uniform": "uniform play",
    "dexp3": "DEXP3 at its anytime rates",
    "centred_tsallis": "`centred_tsallis`",
    "multiscale_waiting": "itself when it waits for the window",
    "thompson": "Thompson sampling",
    "thompson_provisional": "Thompson sampling with the provisional default",
}


def page(results: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the page: the template with its numbers, without the sections whose table has no rows.

    Parameters
    ----------
    results : as ``cells.load`` reads them
    """
    found = _in_order(by_world(results))
    made = tables(found)

    def fill(place: re.Match[str]) -> str:
        kind, name, caption = place.groups()
        if kind == "table":
            return made[name]
        shown = worlds_of(name, found)
        return f"![{caption}](results/{name}.png)\n\n*{caption}. {seeds_text(shown)}.*" if shown else ""

    values = {
        "losses": losses(found),
        "not_played": _not_played(found),
        "worlds": len(found),
        "clicks": sum(" W " in world.name or "clicks" in world.name for world in found),
        "seeds": ", ".join(map(str, sorted({world.seeds for world in found}))),
        "minutes": round(sum(cell["seconds"] for world in found for cell in world.cells.values()) / 60),
    }
    begin, *sections = TEMPLATE.read_text("utf-8").strip().split("\n\n## ")
    texts = [
        wrapped(text.format(**values)) if "{seeds}" in text else text.format(**values)
        for text in begin.split("\n\n")
    ]
    for section in sections:
        if (place := PLACE.search(section)) and place[2] in made:
            texts += f"## {PLACE.sub(fill, section)}".split("\n\n")
    return "\n\n".join(filter(None, texts)) + "\n"


def _in_order(found: Mapping[str, World]) -> list[World]:
    place = {world.name: number for number, world in enumerate(_catalogue())}
    return sorted(found.values(), key=lambda world: place.get(world.name, len(place)))


def _catalogue() -> list[Any]:
    return [world for group in worlds(None).values() for world in group]


def losses(found: Sequence[World]) -> str:
    """Say first where multiscale Tsallis loses: to whom, in which worlds, and by how much."""
    ours = [world for world in found if MULTISCALE in world.cells]
    begin = (
        f"**Where we lose.** `multiscale_tsallis`, which we recommend, was played in {len(ours)} worlds. "
        f"It is worse by more than {SURE:.0f} standard errors of the difference in the same runs"
    )
    texts = [_lost_to(ours, rival, name) for rival, name in RIVALS.items() if _compared(ours, rival)]
    lines = "\n".join(wrapped(f"- {text}", "  ") for text in texts)
    return f"{wrapped(begin)}:\n\n{lines}\n\n{wrapped(_stalls(ours))}"


def wrapped(text: str, indent: str = "") -> str:
    """Return a paragraph in lines that an editor can show."""
    return textwrap.fill(text, LINE, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def _lost_to(ours: Sequence[World], rival: str, name: str) -> str:
    both = _compared(ours, rival)
    lost = [world for world in both if world.worse(MULTISCALE, rival)]
    won = [world for world in both if world.worse(rival, MULTISCALE)] if rival != "uniform" else []
    text = f"than {name} in {len(lost)} of {len(both)} worlds"
    if lost:
        text += " (" + "; ".join(f"{world.name}: {_against(world, rival)}" for world in lost) + ")"
    return text + (f"; better in {len(won)}" if rival != "uniform" else "")


def _compared(ours: Sequence[World], rival: str) -> list[World]:
    return [world for world in ours if world.excess(MULTISCALE, rival) is not None]


def _against(world: World, rival: str) -> str:
    mine, other = world.figure(MULTISCALE), world.figure(rival)
    assert mine is not None  # noqa: S101 - it was compared
    pair = f"{mine.mean:.0f} against {100 if other is None else other.mean:.0f}"
    return f"{pair} per cent of uniform play's clicks" if world.group == WEARY else pair


def _stalls(ours: Sequence[World]) -> str:
    shares = [(world, world.figure(MULTISCALE)) for world in ours if world.group != WEARY]
    stalled = [(world, figure) for world, figure in shares if figure is not None and figure.stalled]
    where = "; ".join(f"{world.name}: {percent(figure.stalled)}" for world, figure in stalled)
    begin = f"A run *stalls* if it ends with more than {STALLED} of uniform play's regret. "
    return begin + (f"Runs of `multiscale_tsallis` stall here: {where}." if where else "None of its runs stalls.")


def _not_played(found: Sequence[World]) -> str:
    """Say what of the whole study is not among the results."""
    full = {world.name: world for world in _catalogue()}
    shorter = [world for world in found if world.name in full and world.slots < full[world.name].slots]
    played = {world.name for world in found}
    notes = []
    if shorter:
        slots = max(world.slots for world in shorter)
        seeds = max((world.seeds for world in shorter if world.group != STALLS), default=0)
        notes.append(
            f"{len(shorter)} worlds were cut to {slots:,} slots{f' and {seeds} seeds' * (seeds > 0)} for this page"
        )
    if missing := [name for name in full if name not in played]:
        notes.append("these worlds were not played: " + "; ".join(missing))
    keys = {key for world in found for key in world.cells}
    if unseen := [entry.name for entry in ENTRIES if entry.key not in keys]:
        notes.append("these learners did not play at all: " + ", ".join(unseen))
    text = f"**Not the whole study.** For want of time {', and '.join(notes)}. The command plays all."
    return wrapped(text) if notes else ""


def seeds_text(found: Sequence[World]) -> str:
    """Return the seeds of a picture in words."""
    counts = sorted({world.seeds for world in found})
    most = int(np.max(counts))
    return f"Seeds 0 to {most - 1}" if len(counts) == 1 else f"Seeds 0 to {counts[0] - 1}, or up to {most - 1}"


def write(results: Mapping[str, Mapping[str, Any]], path: Path) -> None:
    """Write the page, and into the folder ``results`` beside it its figures and the results it is made from."""
    folder = path.parent / "results"
    folder.mkdir(parents=True, exist_ok=True)
    # The curves that no figure shows are left out.
    kept = {
        key: {name: value for name, value in cell.items() if cell["world"] in GROWTH_WORLDS or "curve" not in name}
        for key, cell in results.items()
    }
    save(folder / "study.json", kept)
    draw_all(_in_order(by_world(kept)), folder)
    path.write_text(page(kept), encoding="utf-8")
