"""The cells of the study, played one after the other; each result is kept in a file when it is there."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from loadtest.study.catalogue import LIBRARIES, STALLS, shortened
from loadtest.study.game import Game, Played
from loadtest.study.learners import ENTRIES, SIXTH, Entry
from loadtest.study.worlds import Drawn, World, kind_of
from service.learners.base import FloatArray

FEW = 5
"""Seeds where a cell is slow."""
DIGITS = 6


class Size(NamedTuple):
    """How much is played."""

    seeds: int
    stall_seeds: int
    """Seeds of the worlds that show the share of stalled runs."""
    slots: int
    """Longest horizon; longer worlds are cut."""

    def seeds_of(self, group: str, world: World) -> tuple[int, ...]:
        """Return the seeds of a world: 0, 1, 2, ..."""
        count = self.stall_seeds if group == STALLS else self.seeds
        return tuple(range(min(count, FEW) if world.few else count))


class Cell(NamedTuple):
    """A learner in a world."""

    group: str
    world: World
    entry: Entry
    seeds: tuple[int, ...]

    @property
    def key(self) -> str:
        """Its name in the file of results, with its size: another size is another result."""
        return f"{self.world.name} | {self.entry.key} | {len(self.seeds)} | {self.world.slots}"


def cells_of(groups: Mapping[str, Sequence[World]], size: Size, entries: Sequence[Entry] = ENTRIES) -> list[Cell]:
    """List all cells, by learner, so that a run that stops early has whole columns; what takes long is last."""
    found = [
        Cell(group, short, entry, size.seeds_of(group, world))
        for group, worlds in groups.items()
        for world in worlds
        if (short := shortened(world, size.slots))
        for entry in entries
        if entry.plays(group, world)
    ]
    order = {entry.key: place for place, entry in enumerate(entries)}
    late = order[SIXTH] if SIXTH in order else len(entries)

    def turn(cell: Cell) -> tuple[bool, bool, bool, int]:
        place = order[cell.entry.key]
        return place > late and cell.group != LIBRARIES, cell.world.few, cell.group == STALLS, place

    return sorted(found, key=turn)


def batches(cells: Sequence[Cell]) -> list[list[Cell]]:
    """Put cells together that one run of a player can fill, in the order of their first ones."""
    found: dict[Any, list[Cell]] = {}
    for cell in cells:
        own = cell.world.name if cell.entry.alone else ""
        found.setdefault((cell.entry.key, cell.seeds, own, *kind_of(cell.world)), []).append(cell)
    return list(found.values())


def play(batch: Sequence[Cell]) -> list[dict[str, Any]]:
    """Play the cells of a batch; see ``summary``."""
    began = time.process_time()
    drawn = Drawn([cell.world for cell in batch], batch[0].seeds)
    played = Game(drawn, batch[0].entry.build(drawn)).play()
    parts = [(cell, drawn.columns(cell.world)) for cell in batch]
    found = [summary(cell, Played(played.slots, *(curve[:, part] for curve in played[1:]))) for cell, part in parts]
    seconds = round((time.process_time() - began) / len(batch), 2)
    return [result | {"seconds": seconds} for result in found]


def summary(cell: Cell, played: Played) -> dict[str, Any]:
    """Return what tables and figures need, in rewards per slot; lists have one entry for each seed."""
    slots, has_best = cell.world.slots, not np.isnan(played.best).any()
    regret, still = (played.best - each for each in (played.player, played.uniform))
    return {
        "group": cell.group,
        "world": cell.world.name,
        "learner": cell.entry.key,
        "slots": slots,
        "seeds": len(cell.seeds),
        "reward": _rounded(played.player[-1] / slots),
        "uniform": _rounded(played.uniform[-1] / slots),
        "best": _rounded(played.best[-1] / slots) if has_best else None,
        "curve_slots": played.slots.tolist(),
        "curve": _rounded((regret / slots).mean(axis=1) * slots) if has_best else None,
        "curve_uniform": _rounded(still.mean(axis=1)) if has_best else None,
    }


def _rounded(values: FloatArray) -> list[float]:
    return [float(value) for value in np.round(values, DIGITS)]


def run(cells: Sequence[Cell], path: Path) -> Iterator[list[Cell]]:
    """Play the cells that the file does not have yet; yield each batch when the file has it."""
    results = load(path)
    for batch in batches([cell for cell in cells if cell.key not in results]):
        for cell, result in zip(batch, play(batch), strict=True):
            results[cell.key] = result
        save(path, results)
        yield batch


def load(path: Path) -> dict[str, dict[str, Any]]:
    """Read the results; none where there is no file."""
    if not path.exists():
        return {}
    results: dict[str, dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
    return results


def save(path: Path, results: Mapping[str, Mapping[str, Any]]) -> None:
    """Write the results, a line for each cell, in one step."""
    lines = (f"{json.dumps(key)}: {json.dumps(value, separators=(',', ':'))}" for key, value in results.items())
    part = path.with_suffix(".part")
    part.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    part.replace(path)
