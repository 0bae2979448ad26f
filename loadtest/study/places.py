"""Places of a page that matter more than the items in them: what one session, shuffling, and one each learn."""

from __future__ import annotations

import textwrap
from typing import NamedTuple

import numpy as np

from loadtest.study.open_decisions import OpenDecisions
from loadtest.study.players.player import Mask, Turn, rounds
from loadtest.study.players.tsallis import MultiscaleTsallis
from service.learners.base import FloatArray, IntArray

ATTENTION = np.array([1.0, 0.3, 0.1])
"""Share of an item's clicks that it gets in each place, the first place first."""
ITEMS, LOWEST, HIGHEST = 12, 0.1, 0.3
"""Number of items, and the range of their click rates in the first place."""
SLOTS, WINDOW, DELAY = 6000, 500, 30
"""Pages shown; a click comes so many pages later."""
WAYS = {
    "one session, in the order drawn": "drawn",
    "one session, shuffled before placing": "shuffled",
    "one session for each place": "each",
    "uniform play": "uniform",
}


class Share(NamedTuple):
    """Clicks of a way, in per cent of those that the best items in the best order get."""

    mean: float
    stderr: float
    last: float
    """The mean over the last quarter of the pages."""


class _Session:
    """One session in many runs, with clicks that come late."""

    def __init__(self, runs: int) -> None:
        self._player = MultiscaleTsallis(runs, ITEMS, 1.0, provisional=True)
        self._open = OpenDecisions(runs, ITEMS, [(WINDOW, np.arange(runs))])
        self._due: dict[int, list[tuple[IntArray, IntArray]]] = {}

    def act(self, t: int, u: FloatArray, eligible: Mask) -> IntArray:
        _, arms = self._player.act(Turn(self._open.total.copy(), u, u, eligible))
        self._open.act(t, arms)
        return arms

    def click(self, t: int, runs: IntArray, arms: IntArray) -> None:
        self._due.setdefault(t + DELAY, []).append((runs, arms))

    def settle(self, t: int) -> None:
        for runs, arms in self._due.pop(t, ()):
            for part in rounds(runs) if len(runs) else ():
                known = self._open.by_arm[runs[part], arms[part]] > 0
                who, which = runs[part][known], arms[part][known]
                self._open.close(who, which)
                self._player.settle(who, which, np.zeros(len(who)), who)
        self._open.expired(t)


def simulate(way: str, seeds: int, slots: int = SLOTS) -> Share:
    """Show pages of three different items and learn from their clicks.

    Parameters
    ----------
    way : one of ``WAYS``
    seeds : number of runs
    """
    sources = [np.random.default_rng([seed, 11]) for seed in range(seeds)]
    rates = np.stack([source.permutation(np.linspace(LOWEST, HIGHEST, ITEMS)) for source in sources])
    uniforms = np.stack([source.random((slots, 3, len(ATTENTION))) for source in sources], axis=-1)
    best = float(np.sort(rates, axis=1)[:, ::-1][0, : len(ATTENTION)] @ ATTENTION)
    if way == "uniform":
        share = float(rates.mean() * ATTENTION.sum() / best)
        return Share(100 * share, 0.0, 100 * share)
    sessions = [_Session(seeds) for _ in range(len(ATTENTION) if way == "each" else 1)]
    gained = np.stack([_page(t, way, sessions, rates, uniforms[t - 1]) for t in range(1, slots + 1)]) / best
    of_runs = 100 * gained.mean(axis=0)
    error = float(of_runs.std(ddof=1) / np.sqrt(seeds))
    return Share(float(of_runs.mean()), error, float(100 * gained[-slots // 4 :].mean()))


def _page(t: int, way: str, sessions: list[_Session], rates: FloatArray, uniforms: FloatArray) -> FloatArray:
    """Show one page, and return the clicks it may expect, shape (runs,)."""
    runs, places = np.arange(len(rates)), range(len(ATTENTION))
    eligible, drawn = np.ones(rates.shape, dtype=bool), []
    for place in places:
        arms = sessions[place % len(sessions)].act(t, uniforms[0, place], eligible)
        drawn.append(arms)
        eligible = eligible.copy()
        eligible[runs, arms] = False
    order = uniforms[2].argsort(axis=0) if way == "shuffled" else np.tile(np.array(places)[:, None], len(runs))
    expected: FloatArray = np.zeros(len(runs))
    for place, arms in zip(places, drawn, strict=True):
        chance = ATTENTION[order[place]] * rates[runs, arms]
        expected += chance
        clicked = np.flatnonzero(uniforms[1, place] < chance)
        sessions[place % len(sessions)].click(t, clicked, arms[clicked])
    for session in sessions:
        session.settle(t)
    return expected


def table(seeds: int, slots: int = SLOTS) -> str:
    """Return the ways beside each other, as Markdown, with what was played."""
    rows = ["| clicks in per cent of the best possible | all pages | the last quarter |", "|---|---|---|"]
    for name, way in WAYS.items():
        share = simulate(way, seeds, slots)
        spread = f" ± {share.stderr:.1f}" if share.stderr else ""
        rows.append(f"| {name} | {share.mean:.1f}{spread} | {share.last:.1f} |")
    attention = ", ".join(f"{100 * part:.0f} %" for part in ATTENTION)
    rates = f"{100 * LOWEST:.0f} to {100 * HIGHEST:.0f} %"
    about = (
        f"{ITEMS} items with click rates of {rates} in the first of three places; the places get {attention} of an "
        f"item's clicks; {slots:,} pages, a window of {WINDOW} pages, seeds 0 to {seeds - 1}:"
    )
    return textwrap.fill(about, 118) + "\n\n" + "\n".join(rows)
