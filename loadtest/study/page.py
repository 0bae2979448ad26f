"""The page of results, docs/results.md: all of its numbers are computed from the file of results."""

from __future__ import annotations

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
FIGURES = {
    "study_losses": "All losses are reported, or the world changes: regret in per cent of uniform play's",
    "study_clicks": "Clicks alone: regret in per cent of uniform play's",
    "study_growth": "Growth of regret with the number of slots; the dashed guide has slope 1/2",
    "study_stalls": "Share of runs with at least this regret, as a share of uniform play's",
}
HEADINGS = {
    "full": "All losses are reported",
    "clicks": "Only clicks are reported",
    "changes": "The world changes",
    "weary": "Items that wear out",
    "libraries": "Compared with libraries",
    "compared": "Our other learners",
    "stalls": "Stalled runs",
    "sixth": "A sixth expert, measured and not adopted",
}
ABOUT = {
    "full": """\
Every decision is answered; the answer names its arm and comes late.""",
    "clicks": """\
W is the window in slots. *Provisional* learns a missing click at the act and corrects it; *waiting* learns it
when the window ends. All other columns wait for the window. `multiscale_tsallis` is provisional, and has a second
column in which it waits. Clicks after their window are sent too.""",
    "changes": """\
Regret is against the best arm of each moment. Where W is given only clicks are reported.""",
    "weary": """\
Clicks (or rewards) in per cent of uniform play's: more is better. Visitors click less on items that were shown
often.""",
    "libraries": """\
Libraries that a user could install instead (extra `peers`), with their defaults (epsilon .1). They get the arm of
every loss when it comes, and of missing clicks at the window's end. Some need a millisecond for an event, so the
horizons are short and the seeds few.""",
    "compared": """\
Each learner has the rates of its theorem, with the horizon and delays of the world. EXP3, BOLD and delayed Tsallis
get the slot of each loss.""",
    "stalls": """\
Worlds in which arms are hard to tell apart, with more seeds.""",
    "sixth": """\
It plays an arm with a probability of exp(-N kl(r, best r)), N being the arm's decisions and r its mean reward
(KL-Maillard sampling). Regret and stalled runs are means over worlds; the cost is that of the many-runs form.""",
}
METHOD = """\
The tables show regret in per cent of uniform play's in the same worlds, mean ± standard error over the seeds
(0, 1, 2, ...; each draws its rates and the order of its arms), and in brackets the share of stalled runs.
Regret is in expected losses against the best arm of each moment, for Jester's visitors against the one best
joke. T is the horizon in slots. A dash means: not played. {worlds} worlds, {clicks} of them of clicks
alone; runs of a world: {seeds}; {minutes} minutes of one processor in all. No bound is proved for
`multiscale_tsallis` and `centred_tsallis`. The paper's own experiments are in
[results-paper.md](results-paper.md)."""
COMMAND = """\
This command plays the study and writes this page, its tables and its figures. It plays only what its folder of
results does not have yet, so you can stop and start it:

```sh
python -m loadtest study --data jester_dataset_1_1.zip --page docs/results.md
```"""


def page(results: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the page.

    Parameters
    ----------
    results : as ``cells.load`` reads them
    """
    found = list(_in_order(by_world(results)))
    made = tables(found)
    parts = ["# Results: learners in many worlds", losses(found), _method(found), _not_played(found)]
    for name, text in made.items():
        parts += [f"## {HEADINGS[name]}", ABOUT[name], text]
        parts += [_picture(figure, found) for figure in _figures_after(name)]
    return "\n\n".join(part for part in parts if part) + "\n"


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
    rivals = (
        ("uniform", "uniform play"),
        ("dexp3", "DEXP3 at its anytime rates"),
        ("centred_tsallis", "`centred_tsallis`"),
        ("multiscale_waiting", "itself when it waits for the window"),
        ("thompson", "Thompson sampling"),
        ("thompson_provisional", "Thompson sampling with the provisional default"),
    )
    texts = [_lost_to(ours, rival, name) for rival, name in rivals if _compared(ours, rival)]
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


def _method(found: Sequence[World]) -> str:
    seeds = ", ".join(map(str, sorted({world.seeds for world in found})))
    clicks = sum(" W " in world.name or "clicks" in world.name for world in found)
    minutes = round(sum(cell["seconds"] for world in found for cell in world.cells.values()) / 60)
    return wrapped(METHOD.format(worlds=len(found), clicks=clicks, seeds=seeds, minutes=minutes))


def _not_played(found: Sequence[World]) -> str:
    """Say how the results came, and what of the whole study is not among them."""
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
    if not notes:
        return COMMAND
    return f"{COMMAND}\n\n" + wrapped(
        f"**Not the whole study.** For want of time {', and '.join(notes)}. The command plays all."
    )


def _figures_after(name: str) -> list[str]:
    return {"full": ["study_losses"], "clicks": ["study_clicks"], "changes": ["study_growth"]}.get(name, []) or (
        ["study_stalls"] if name == "stalls" else []
    )


def _picture(figure: str, found: Sequence[World]) -> str:
    shown = worlds_of(figure, found)
    if not shown:
        return ""
    return f"![{FIGURES[figure]}](results/{figure}.png)\n\n*{FIGURES[figure]}. {seeds_text(shown)}.*"


def seeds_text(found: Sequence[World]) -> str:
    """Return the seeds of a picture in words."""
    counts = sorted({world.seeds for world in found})
    most = int(np.max(counts))
    return f"Seeds 0 to {most - 1}" if len(counts) == 1 else f"Seeds 0 to {counts[0] - 1}, or up to {most - 1}"


def write(results: Mapping[str, Mapping[str, Any]], path: Path) -> None:
    """Write the page, and into the folder ``results`` beside it its figures and the results it is made from."""
    folder = path.parent / "results"
    folder.mkdir(parents=True, exist_ok=True)
    kept = {key: _without_curves(cell) for key, cell in results.items()}
    save(folder / "study.json", kept)
    draw_all(_in_order(by_world(kept)), folder)
    path.write_text(page(kept), encoding="utf-8")


def _without_curves(cell: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a cell without the curves that no figure shows."""
    if cell["world"] in GROWTH_WORLDS:
        return cell
    return {name: value for name, value in cell.items() if not name.startswith("curve")}
