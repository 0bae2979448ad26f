"""Players of many runs: learners of the service play as sessions do, each run of a library has its own policy."""

import numpy as np
import pytest

from loadtest.errors import LoadTestError
from loadtest.replay.session import pass_time
from loadtest.study.learners import ENTRIES, chosen, installed
from loadtest.study.peers import PeerPlayer
from loadtest.study.players import ServicePlayer, Turn
from loadtest.study.worlds import Drawn, World, gap
from service.engine.ledger import ArmFeedback, Expiry, Params
from service.engine.run import start_run
from service.learners import REGISTRY
from service.learners.base import Slot
from tests.support.examples import some_quick

ARMS = 4


@pytest.mark.slow
@pytest.mark.parametrize(("default", "provisional"), [(1.0, True), (1.0, False), (None, False)])
def test_with_clicks_and_a_window(default: float | None, provisional: bool) -> None:
    """A session with buckets of time expires later by a 64th of its window at most: here never in between."""
    slots, window, seed = 200, 64, 5
    spec = REGISTRY["multiscale_tsallis"].model_validate({"kind": "multiscale_tsallis", "n_arms": ARMS})
    run = start_run(Params(spec, seed, expiry=Expiry(float(window), default, provisional)))
    player = ServicePlayer(spec.build(), 1, default, provisional=provisional)
    random, one = np.random.default_rng(0), np.zeros(1, dtype=np.int64)
    due: dict[int, list[int]] = {}
    for t in range(1, slots + 1):
        before = run.ledger.by_arm.copy()
        pass_time(run, float(t))
        for arm, count in enumerate((before - run.ledger.by_arm).tolist()):
            for _ in range(count):
                player.expire(one, np.array([arm]), one)
        outstanding = np.array([run.ledger.outstanding])
        action = run.act()
        p, arms = player.act(Turn(outstanding, np.array([run.draws.uniform(t)]), np.zeros(1)))
        assert arms[0] == action.arm
        assert p[0] == pytest.approx(run.learner.distribution(run.state), abs=1e-10)
        if random.random() < (0.5 if action.arm == 2 else 0.1):
            due.setdefault(t + 7, []).append(action.arm)
        for arm in due.pop(t, ()):
            loss = float(default is None and random.random() < 0.5)
            run.settle(ArmFeedback(arm, loss))
            player.settle(one, np.array([arm]), np.array([loss]), one)


@pytest.mark.parametrize("kind", some_quick(["multiscale_tsallis", "centred_tsallis"], {"centred_tsallis"}))
def test_when_arms_come_and_go_and_some_are_barred(kind: str) -> None:
    """Drawn arms are eligible, and their distribution is the service's."""
    learner = REGISTRY[kind].model_validate({"kind": kind, "n_arms": ARMS}).build()
    player = ServicePlayer(learner, 1)
    state, random, one = learner.start(), np.random.default_rng(1), np.zeros(1, dtype=np.int64)

    for t in range(1, 91):
        if t == 20:
            state = learner.add_arms(state, 2)
            player.add_arms(2)
        if t == 40:
            state = learner.remove_arms(state, np.array([1]))
            player.remove_arms(np.array([1]))
        eligible = np.sort(random.permutation(ARMS + 1)[:2]) if t > 60 else None
        mask = None if eligible is None else np.isin(np.arange(ARMS + 1), eligible)[None]
        slot = Slot(t, 0, random.random(), eligible=eligible)
        state, arm = learner.draw(learner.open(state, slot), slot)
        p, arms = player.act(Turn(one, np.array([slot.u]), one.astype(float), mask))
        assert arms[0] == arm
        assert p[0] == pytest.approx(learner.distribution(state), abs=1e-9)
        loss = float(random.random() < (0.2 if arm == 0 else 0.7))
        state = learner.settle(state, arm, loss)
        player.settle(one, np.array([arm]), np.array([loss]), one)


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
    drawn = Drawn([World("library", 3, 60, gap(0.9, 0.1), ("constant", 2))], (0, 1))
    player = entry.build(drawn)
    for t in range(60):
        p, arms = player.act(Turn(np.zeros(2, dtype=int), drawn.draws[t, 0], drawn.draws[t, 0]))
        assert p.sum(axis=1).tolist() == [1, 1]
        player.settle(np.arange(2), arms, (arms != 0).astype(float), np.zeros(2, dtype=int))
    assert (arms == 0).any()
