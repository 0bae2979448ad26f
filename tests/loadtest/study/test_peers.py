"""Libraries beside ours: named where they are missing, told arms and rewards where they are there."""

from __future__ import annotations

import numpy as np
import pytest

from loadtest.commands.study import chosen
from loadtest.errors import LoadTestError
from loadtest.study.learners import ENTRIES, installed
from loadtest.study.players.peers import PeerPlayer
from loadtest.study.players.player import Turn

LIBRARIES = [entry for entry in ENTRIES if entry.needs]


def test_those_not_installed_are_named(monkeypatch) -> None:
    monkeypatch.setattr("loadtest.study.learners.find_spec", lambda name: None)
    can, missing = installed()

    assert missing == LIBRARIES
    assert not any(entry.needs for entry in can)


def test_learners_are_chosen_by_key() -> None:
    assert [entry.key for entry in chosen(ENTRIES, ["thompson", "dexp3"])] == ["thompson", "dexp3"]
    with pytest.raises(LoadTestError, match="no learner 'exp4'"):
        chosen(ENTRIES, ["exp4"])


class Noting:
    """A policy that shows one arm and notes what it learns."""

    def __init__(self, arms: int, seed: int) -> None:
        self.arm, self.learned = seed % arms, []

    def choose(self, u: float) -> int:
        return self.arm

    def learn(self, arm: int, reward: float) -> None:
        self.learned.append((arm, reward))


def test_each_run_has_its_own_policy() -> None:
    made = []

    def make(arms: int, seed: int) -> Noting:
        made.append(Noting(arms, seed))
        return made[-1]

    player = PeerPlayer(make, 3, (0, 1, 2), 1.0)
    p, arms = player.act(Turn(np.zeros(3, dtype=int), np.zeros(3), np.zeros(3)))
    player.settle(np.array([1]), np.array([1]), np.zeros(1), np.zeros(1, dtype=int))
    player.expire(np.array([2]), np.array([2]), np.zeros(1, dtype=int))

    assert arms.tolist() == [0, 1, 2]
    assert p.tolist() == np.eye(3).tolist()
    assert [policy.learned for policy in made] == [[], [(1, 1.0)], [(2, 0.0)]]


@pytest.mark.slow
@pytest.mark.parametrize("entry", LIBRARIES, ids=lambda entry: entry.key)
def test_a_library_learns(entry) -> None:
    pytest.importorskip(entry.needs)
    from loadtest.study.streams import gap
    from loadtest.study.worlds import Drawn, World

    world = World("library", 3, 60, gap(0.9, 0.1), ("constant", 2))
    drawn = Drawn([world], (0, 1))
    player = entry.build(drawn)
    for t in range(60):
        p, arms = player.act(Turn(np.zeros(2, dtype=int), drawn.draws[t, 0], drawn.draws[t, 0]))
        assert p.sum(axis=1).tolist() == [1, 1]
        player.settle(np.arange(2), arms, (arms != 0).astype(float), np.zeros(2, dtype=int))
    assert (arms == 0).any()
