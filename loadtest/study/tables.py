"""Tables of the page of results, as Markdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from loadtest.study.catalogue import CHANGES, CLICKS, FULL, LIBRARIES, STALLS, WEARY
from loadtest.study.learners import ENTRIES, MULTISCALE
from service.learners.base import FloatArray

STALLED = 0.9
"""Share of uniform play's regret above which a run counts as stalled."""
SURE = 3.0
"""Standard errors of a difference from which on it is one."""


class Figure(NamedTuple):
    """One cell of a table, in per cent of uniform play's regret (or of its clicks, where arms wear out)."""

    mean: float
    stderr: float
    stalled: float
    """Share of runs."""

    @property
    def text(self) -> str:
        """As tables show it; the share of stalled runs only where there are any."""
        digits = 1 if self.stderr < 0.5 else 0
        shown = f"{self.mean:.{digits}f}±{self.stderr:.{digits}f}"
        return shown if not self.stalled else f"{shown} ({100 * self.stalled:.0f}%)"


class World(NamedTuple):
    """The results of one world."""

    group: str
    name: str
    slots: int
    seeds: int
    cells: dict[str, dict[str, Any]]
    """Learner to its cell."""

    def regret(self, learner: str) -> FloatArray:
        """Return the regret of each run, per slot."""
        cell = self.cells[learner]
        regret: FloatArray = np.array(cell["best"]) - np.array(cell["reward"])
        return regret

    def uniform(self) -> FloatArray:
        """Return uniform play's regret in the same runs, per slot."""
        cell = next(iter(self.cells.values()))
        regret: FloatArray = np.array(cell["best"]) - np.array(cell["uniform"])
        return regret

    def figure(self, learner: str) -> Figure | None:
        """Return a learner's cell; None where it was not played."""
        if learner not in self.cells:
            return Figure(100.0, 0.0, 0.0) if learner == "uniform" else None
        if self.group == WEARY:
            share = 100 * np.array(self.cells[learner]["reward"]) / np.mean(self.cells["uniform"]["reward"])
            return Figure(float(share.mean()), _error(share), 0.0)
        regret, uniform = self.regret(learner), self.uniform()
        share = 100 * regret / uniform.mean()
        return Figure(float(share.mean()), _error(share), float((regret > STALLED * uniform).mean()))

    def text(self, learner: str) -> str:
        """Return what a table says of a learner."""
        figure = self.figure(learner)
        return NOT_PLAYED if figure is None else figure.text

    def excess(self, learner: str, other: str) -> tuple[float, float]:
        """Return how much more regret a learner has than another in the same runs, and its standard error.

        Both are in per cent of uniform play's regret, or of its clicks if arms wear out; nan if one of the
        two was not played. ``other`` may be uniform play anywhere.
        """
        if learner not in self.cells or (other != "uniform" and other not in self.cells):
            return np.nan, np.nan
        if self.group == WEARY:
            gaps = np.array(self.cells[other]["reward"]) - np.array(self.cells[learner]["reward"])
            gaps = 100 * gaps / np.mean(self.cells["uniform"]["reward"])
        else:
            before = self.uniform() if other == "uniform" else self.regret(other)
            gaps = 100 * (self.regret(learner) - before) / self.uniform().mean()
        return float(gaps.mean()), _error(gaps)

    def surely(self, learner: str, other: str) -> float:
        """Return by how many standard errors of the difference a learner is worse; nan if one was not played."""
        gap, error = self.excess(learner, other)
        return gap / max(error, 1e-9)

    def worse(self, learner: str, other: str) -> bool:
        """Whether a learner is worse than another by more than ``SURE`` standard errors of the difference."""
        return self.surely(learner, other) > SURE


def _error(values: FloatArray) -> float:
    return float(values.std(ddof=1) / np.sqrt(len(values)))


def by_world(results: Mapping[str, Mapping[str, Any]]) -> dict[str, World]:
    """Return the worlds of a file of results; of several sizes of a world that with most slots and seeds counts."""
    worlds: dict[str, World] = {}
    for cell in sorted(results.values(), key=lambda cell: (cell["slots"], cell["seeds"])):
        name, size = cell["world"], (cell["slots"], cell["seeds"])
        known = worlds.get(name)
        if known is None or (known.slots, known.seeds) != size:
            worlds[name] = known = World(cell["group"], name, *size, {})
        known.cells[cell["learner"]] = dict(cell)
    return worlds


NAMES = {entry.key: entry.name for entry in ENTRIES}
NOT_PLAYED = "-"
MAIN = (MULTISCALE, "centred_tsallis", "dexp3", "thompson", "greedy")
ON_CLICKS = (MULTISCALE, "multiscale_waiting", "thompson", "thompson_provisional", "greedy")
LIBRARY_LEARNERS = tuple(entry.key for entry in ENTRIES if entry.needs)


def table(worlds: Sequence[World], learners: Sequence[str]) -> str:
    """Return a table of worlds and learners; those without a result are left out.

    What is better than multiscale Tsallis by more than chance is bold.
    """
    shown = [learner for learner in learners if any(learner in world.cells for world in worlds)]
    rows = [["world", *(NAMES.get(learner, learner) for learner in shown)]]
    for world in worlds:
        texts = [(world.text(learner), world.worse(MULTISCALE, learner)) for learner in shown]
        rows.append([_named(world, worlds), *(f"**{text}**" if better else text for text, better in texts)])
    return markdown(rows)


def size_text(worlds: Sequence[World]) -> str:
    """Return the size that most of the worlds have."""
    slots, seeds = _usual(worlds)
    return f"T {slots:,}, {seeds} seeds, unless a world says otherwise:"


def _usual(worlds: Sequence[World]) -> tuple[int, int]:
    return Counter((world.slots, world.seeds) for world in worlds).most_common(1)[0][0]


def _named(world: World, worlds: Sequence[World]) -> str:
    """Return a world's name, with what its size has of its own."""
    slots, seeds = _usual(worlds)
    own = [f"T {world.slots:,}"] if world.slots != slots and f"T {world.slots:,}" not in world.name else []
    own += [f"{world.seeds} seeds"] if world.seeds != seeds else []
    return ", ".join([world.name, *own])


def markdown(rows: Sequence[Sequence[str]]) -> str:
    """Return rows, the first of them the head, as a Markdown table."""
    return "\n".join(" | ".join(row) for row in [rows[0], ["---"] * len(rows[0]), *rows[1:]])


def of_group(worlds: Iterable[World], *groups: str) -> list[World]:
    """Return the worlds of these groups, in their order."""
    return [world for world in worlds if world.group in groups]


def tables(worlds: Sequence[World]) -> dict[str, str]:
    """Return each table of the page that has rows, by name, after the size that most of its worlds have."""
    asked = {
        "full": (of_group(worlds, FULL), MAIN),
        "clicks": (of_group(worlds, CLICKS), ON_CLICKS),
        "changes": (of_group(worlds, CHANGES), ON_CLICKS),
        "weary": (of_group(worlds, WEARY), ON_CLICKS),
        "stalls": (of_group(worlds, STALLS), MAIN),
        "libraries": (of_group(worlds, LIBRARIES), (*MAIN, *LIBRARY_LEARNERS)),
    }
    return {
        name: f"{size_text(rows)}\n\n{table(rows, learners)}" for name, (rows, learners) in asked.items() if rows
    }
