"""The cells of the study, a player in a world, all seeds at once; a file keeps each result when it is there."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from loadtest.study.catalogue import LIBRARIES, STALLS, shortened
from loadtest.study.learners import ENTRIES, Entry
from loadtest.study.players import Mask, Player, Turn, rounds
from loadtest.study.worlds import NEVER, Drawn, Weariness, World, kind_of
from service.learners.base import FloatArray, IntArray


class OpenDecisions:
    """Counts of open decisions.

    Parameters
    ----------
    runs, arms : how many runs, and arms there ever are
    windows : each window, and the runs that have it; empty where nothing expires
    """

    def __init__(self, runs: int, arms: int, windows: list[tuple[int, IntArray]]) -> None:
        self.by_arm = np.zeros((runs, arms), dtype=np.int64)
        self._recent = np.zeros((runs, arms), dtype=np.int64)
        self._windows, self._all = windows, np.arange(runs)
        self._acts: dict[int, list[tuple[IntArray, IntArray]]] = {}
        self.total = np.zeros(runs, dtype=np.int64)

    def act(self, t: int, arms: IntArray) -> None:
        """Open a decision in every run."""
        self.by_arm[self._all, arms] += 1
        self.total += 1
        if self._windows:
            self._recent[self._all, arms] += 1
        for window, runs in self._windows:
            self._acts.setdefault(t + window, []).append((runs, arms[runs]))

    def close(self, runs: IntArray, arms: IntArray) -> None:
        """Close a decision of these arms."""
        self.by_arm[runs, arms] -= 1
        self.total[runs] -= 1

    def expired(self, t: int) -> list[tuple[IntArray, IntArray]]:
        """Close the decisions whose window ends after slot ``t``: of each arm its oldest ones."""
        ended = []
        for acted, shown in self._acts.pop(t, ()):
            self._recent[acted, shown] -= 1
            is_over = self.by_arm[acted, shown] > np.maximum(self._recent[acted, shown], 0)
            runs, arms = acted[is_over], shown[is_over]
            if len(runs):
                self.close(runs, arms)
                ended.append((runs, arms))
        return ended

    def drop(self, arm: int) -> None:
        """Close all decisions of an arm that is removed."""
        self.total -= self.by_arm[:, arm]
        self.by_arm[:, arm] = 0
        self._recent[:, arm] = 0


POINTS = 60
"""Slots at which sums are kept for curves."""


class Played(NamedTuple):
    """Expected rewards of every run, summed up to some slots; all have shape (points, runs)."""

    slots: IntArray
    """Shape (points,)."""
    player: FloatArray
    uniform: FloatArray
    """Of uniform play at the same moment, the arms being as the player left them."""
    best: FloatArray
    """Of the best arms of each moment, with visitors of the one best arm; nan where arms wear out."""


class Game:
    """The course of one cell.

    Parameters
    ----------
    drawn : the worlds
    player : over all their runs
    """

    def __init__(self, drawn: Drawn, player: Player) -> None:
        world = drawn.world
        self._drawn, self._world, self._player = drawn, world, player
        self._runs = np.arange(drawn.runs)
        self._live, self._known = np.arange(world.arms), world.arms
        self._open = OpenDecisions(len(self._runs), world.all_arms, drawn.windows())
        self._due: dict[int, list[tuple[IntArray, IntArray, FloatArray, IntArray]]] = {}
        self._weary = [
            Weariness(*part.weary, drawn.columns(part), world.all_arms) for part in drawn.worlds if part.weary
        ]
        self._sums = np.zeros((3, len(self._runs)))
        self._of_arms = np.zeros((len(self._runs), world.all_arms))

    def play(self) -> Played:
        """Play all slots."""
        slots = self._world.slots
        kept = np.unique(np.geomspace(min(20, slots), slots, POINTS).round().astype(int))
        curves = np.empty((3, len(kept), len(self._runs)))
        of_arms = np.empty((len(kept), *self._of_arms.shape))
        place = 0
        for t in range(1, slots + 1):
            self._slot(t)
            if t == kept[place]:
                curves[:, place], of_arms[place] = self._sums, self._of_arms
                place += 1
        best = curves[2]
        if self._weary:
            best = np.full(best.shape, np.nan)
        elif self._world.visitors:
            best = of_arms[:, self._runs, of_arms[-1].argmax(axis=1)]
        return Played(kept, curves[0], curves[1], best)

    def _slot(self, t: int) -> None:
        if t in self._world.changes:
            self._change(*self._world.changes[t])
        everywhere = self._drawn.chances(t)
        for weary in self._weary:
            weary.wear(everywhere)
        chances = everywhere[:, self._live]
        eligible = self._drawn.eligible(len(self._live))
        self._compare(chances, eligible)
        for place in range(self._world.places):
            self._act(t, place, chances, eligible)
            if place + 1 < self._world.places:
                eligible = np.ones(chances.shape, dtype=bool) if eligible is None else eligible.copy()
                eligible[self._runs, self._shown] = False
        self._settle(t)

    def _change(self, removed: int | None, added: int) -> None:
        if removed is not None:
            self._open.drop(int(self._live[removed]))
            self._live = np.delete(self._live, removed)
            self._player.remove_arms(np.array([removed]))
        if added:
            self._live = np.r_[self._live, np.arange(self._known, self._known + added)]
            self._known += added
            self._player.add_arms(added)

    def _compare(self, chances: FloatArray, eligible: Mask | None) -> None:
        places = self._world.places
        if self._world.visitors:
            self._of_arms += chances
        allowed = np.ones(chances.shape, dtype=bool) if eligible is None else eligible
        self._sums[1] += places * (chances * allowed).sum(axis=1) / allowed.sum(axis=1)
        open_chances = np.where(allowed, chances, 0.0)
        best = open_chances.max(axis=1) if places == 1 else np.sort(open_chances, axis=1)[:, -places:].sum(axis=1)
        self._sums[2] += best

    def _act(self, t: int, place: int, chances: FloatArray, eligible: Mask | None) -> None:
        drawn = self._drawn
        u, v = drawn.draws[t - 1, place], drawn.second[t - 1, place]
        p, arms = self._player.act(Turn(self._open.total.copy(), u, v, eligible))
        self._shown = arms
        self._sums[0] += (p * chances).sum(axis=1)
        ids = self._live[arms]
        self._open.act(t, ids)
        for weary in self._weary:
            weary.show(ids)
        chosen = chances[self._runs, arms]
        losses = 1 - chosen if self._world.ratings else (drawn.rewards[t - 1, place] >= chosen).astype(float)
        self._schedule(t, place, ids, losses)

    def _schedule(self, t: int, place: int, ids: IntArray, losses: FloatArray) -> None:
        drawn = self._drawn
        late = np.where(drawn.is_lost[t - 1, place], NEVER, drawn.delays[t - 1, place])
        sent = self._runs if not self._world.clicks else np.flatnonzero(losses == 0)
        twice = sent[drawn.is_doubled[t - 1, place][sent]] if drawn.is_doubled[t - 1, place].any() else sent[:0]
        for runs in (sent, twice):
            for delay in np.unique(late[runs]).tolist():
                part = runs[late[runs] == delay]
                if t + delay <= self._world.slots:
                    event = part, ids[part], losses[part], np.full(len(part), t)
                    self._due.setdefault(t + delay, []).append(event)

    def _settle(self, t: int) -> None:
        events = self._due.pop(t, None)
        if events:
            joined = [np.concatenate(parts) for parts in zip(*events, strict=True)]
            for part in rounds(joined[0]):
                runs, ids, losses, slots = (values[part] for values in joined)
                known = self._open.by_arm[runs, ids] > 0
                if known.any():
                    runs, ids, losses, slots = runs[known], ids[known], losses[known], slots[known]
                    self._open.close(runs, ids)
                    self._player.settle(runs, np.searchsorted(self._live, ids), losses, slots)
        for runs, ids in self._open.expired(t):
            self._player.expire(runs, np.searchsorted(self._live, ids), np.full(len(runs), t))


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
    late = next((place for place, entry in enumerate(entries) if entry.alone), len(entries))

    def turn(cell: Cell) -> tuple[bool, bool, bool, int]:
        place = order[cell.entry.key]
        return place >= late and cell.group != LIBRARIES, cell.world.few, cell.group == STALLS, place

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
    found: dict[str, Any] = {"group": cell.group, "world": cell.world.name, "learner": cell.entry.key}
    found |= {"slots": slots, "seeds": len(cell.seeds), "curve_slots": played.slots.tolist()}
    found |= {"reward": _rounded(played.player[-1] / slots), "uniform": _rounded(played.uniform[-1] / slots)}
    found["best"] = _rounded(played.best[-1] / slots) if has_best else None
    found["curve"] = _rounded((regret / slots).mean(axis=1) * slots) if has_best else None
    found["curve_uniform"] = _rounded(still.mean(axis=1)) if has_best else None
    return found


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


def load(path: Path) -> dict[str, Any]:
    """Read the results; none where there is no file."""
    if not path.exists():
        return {}
    results: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return results


def save(path: Path, results: Mapping[str, Any]) -> None:
    """Write results, a line for each, in one step."""
    lines = (f"{json.dumps(key)}: {json.dumps(value, separators=(',', ':'))}" for key, value in results.items())
    part = path.with_suffix(".part")
    part.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    part.replace(path)
