"""What happens in a world of the study: windows, lost and doubled events, slates, and items that wear out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from loadtest.study.catalogue import WEARY, check_names, shortened, worlds
from loadtest.study.game import Game
from loadtest.study.players.player import Player, Turn, rounds
from loadtest.study.players.simple import Thompson, Uniform
from loadtest.study.players.tsallis import MultiscaleTsallis
from loadtest.study.streams import gap, growing, switching
from loadtest.study.worlds import Drawn, World

SEEDS = (0, 1, 2)
CLICKS = World("clicks", 4, 120, gap(0.5, 0.2), ("constant", 5), window=20)


class Recorder(Player):
    """Counts what it is told, and notes who could be drawn."""

    def __init__(self, drawn: Drawn) -> None:
        super().__init__(1.0)
        self._inner = Uniform(drawn.runs, drawn.world.arms)
        self.settled, self.expired = np.zeros(drawn.runs, dtype=int), np.zeros(drawn.runs, dtype=int)
        self.turns, self.drawn = [], []

    def act(self, turn: Turn):
        self.turns.append(turn)
        p, arms = self._inner.act(turn)
        self.drawn.append(arms)
        return p, arms

    def settle(self, runs, arms, losses, slots) -> None:
        self.settled[runs] += 1

    def expire(self, runs, arms, slots) -> None:
        self.expired[runs] += 1


def played(*which: World) -> tuple[Recorder, Drawn]:
    drawn = Drawn(which, SEEDS)
    recorder = Recorder(drawn)
    Game(drawn, recorder).play()
    return recorder, drawn


def test_every_decision_of_a_window_ago_is_settled_once() -> None:
    recorder, drawn = played(CLICKS)

    left = recorder.turns[-1].outstanding + 1
    assert (recorder.settled + recorder.expired <= CLICKS.slots).all()
    assert (recorder.settled > 0).all()
    assert (left <= 40).all()
    assert (recorder.settled + recorder.expired >= CLICKS.slots - 40).all()
    assert drawn.windows()[0][0] == 20


def test_lost_events_do_not_come_and_doubled_ones_settle_others() -> None:
    all_lost, _ = played(replace(CLICKS, lost=1.0))
    twice, _ = played(replace(CLICKS, doubled=1.0))
    once, _ = played(CLICKS)

    assert not all_lost.settled.any()
    assert (all_lost.expired == CLICKS.slots - CLICKS.window).all()
    assert (twice.settled > once.settled).all()


@pytest.mark.slow
def test_worlds_played_together_are_those_played_alone() -> None:
    other = replace(CLICKS, name="other", window=30, delay=("spread", 9.0), lost=0.2)
    together = Game(Drawn([CLICKS, other], SEEDS), MultiscaleTsallis(6, 4, 1.0, provisional=True)).play()

    for world in (CLICKS, other):
        alone = Game(Drawn([world], SEEDS), MultiscaleTsallis(3, 4, 1.0, provisional=True)).play()
        columns = Drawn([CLICKS, other], SEEDS).columns(world)
        assert alone.player == pytest.approx(together.player[:, columns], abs=1e-9)


def test_items_of_a_slate_differ_and_barred_ones_stay_away() -> None:
    recorder, _ = played(replace(CLICKS, arms=8, places=3, barred=True, slots=30))

    for turn, arms in zip(recorder.turns, recorder.drawn, strict=True):
        assert turn.eligible is None or turn.eligible[np.arange(3), arms].all()
    for first in range(0, len(recorder.drawn), 3):
        slates = np.stack(recorder.drawn[first : first + 3])
        assert all(len(set(column)) == 3 for column in slates.T.tolist())


def test_items_wear_out() -> None:
    weary = replace(CLICKS, weary=("most", 10))
    drawn = Drawn([weary], SEEDS)
    found = Game(drawn, Thompson(3, 4, 1.0)).play()

    assert np.isnan(found.best).all()
    assert (found.player[-1] < weary.slots * 0.5).all()


def test_rounds_name_a_run_once() -> None:
    runs = np.array([2, 0, 2, 1, 2, 0])
    parts = [part.tolist() for part in rounds(runs)]

    assert [sorted(runs[part]) for part in parts] == [[0, 1, 2], [0, 2], [2]]
    assert parts[2] == [4]


def test_the_best_arm_changes_in_every_block() -> None:
    for maker, slots in ((switching(gap(0.9, 0.1), 10), (1, 11, 21)), (growing(gap(0.9, 0.1), 10), (1, 10, 20))):
        chances = maker(np.random.default_rng(3), 5)
        best = [int(chances(t).argmax()) for t in slots]
        assert best[0] != best[1] != best[2]


def test_the_catalogue_names_its_worlds_apart() -> None:
    groups = worlds(None)
    check_names(groups)

    assert all(world.weary for world in groups[WEARY])
    assert shortened(replace(CLICKS, window=100), 50) is None
    with pytest.raises(ValueError, match="share a name"):
        check_names({"one": [CLICKS, CLICKS]})
