"""Arms come and go: what holds of all learners; test_vectors.py has their hand-made traces."""

import numpy as np
import pytest

from service.engine.arm_run import Arms
from service.engine.ledger import ArmAction, ArmFeedback, Params
from service.engine.run import Run, start_run
from service.learners import REGISTRY
from tests.support import vectors
from tests.support.runs import by_index

FIELDS = vectors.over_arms()
NAMES = ["a", "b", "c", "d", "e"]


def learned(kind: str, slots: int = 300, seed: int = 3) -> Run:
    """A run that has learned from delays up to 3 slots, some arms being better than others."""
    run = start_run(Params(REGISTRY[kind].model_validate({"kind": kind, "arms": NAMES} | FIELDS[kind]), seed))
    rng, waiting = np.random.default_rng(seed), []
    for t in range(slots):
        action = run.act()
        assert isinstance(action, ArmAction)
        waiting.append(action)
        while len(waiting) > t % 4:
            given = waiting.pop(0)
            run.settle(ArmFeedback(given.arm, float(rng.random() < 0.2 + 0.15 * given.arm), given.slot))
    return run


def change(run: Run, add: list[str], remove: list[str]) -> None:
    run.change_arms(run.arms.change(add, remove))


@pytest.mark.parametrize("kind", FIELDS)
def test_states_lie_in_memory_as_those_that_are_read(kind):
    """Else sums of both are rounded in another way."""
    run = learned(kind, slots=20)
    change(run, ["x"], ["b", "d"])

    assert all(part.flags.c_contiguous for part in run.state if isinstance(part, np.ndarray))


@pytest.mark.parametrize("kind", FIELDS)
@pytest.mark.parametrize(
    ("add", "remove"), [(["x"], []), (["x", "y"], ["b"]), ([], ["e"]), (["a"], ["a", "c", "d"])]
)
def test_new_arms_start_at_their_share_and_the_others_keep_their_ratios(kind, add, remove):
    run = learned(kind)
    before = run.probabilities
    change(run, add, remove)
    after = by_index(run, run.probabilities)

    kept = [arm for arm, name in enumerate(NAMES) if name not in remove]
    n_arms = len(kept) + len(add)
    assert (after.size, after.sum()) == (len(NAMES) + len(add), pytest.approx(1, abs=1e-12))
    np.testing.assert_allclose(after[len(NAMES) :], 1 / n_arms, rtol=1e-12)
    np.testing.assert_allclose(after[kept] / after[kept].sum(), before[kept] / before[kept].sum(), rtol=1e-9)
    assert not after[[arm for arm in range(len(NAMES)) if arm not in kept]].any()


@pytest.mark.parametrize("kind", ["dexp3", "centred_tsallis"])
def test_probabilities_keep_their_floor(kind):
    run = learned(kind, slots=2000)
    rng = np.random.default_rng(5)
    for number in range(40):
        names = list(run.arms.shown_names)  # type: ignore[union-attr]
        leaving = rng.choice(names, size=min(len(names) - 1, number % 3), replace=False).tolist()
        change(run, [f"new-{number}"], leaving)
        n_arms = len(run.arms.live)  # type: ignore[union-attr]
        share = run.state.probability_floor if kind == "dexp3" else 0.25 / np.sqrt(max(run.ledger.slot, 1))
        for p in (run.probabilities, run.learner.distribution(run.state)):  # type: ignore[attr-defined]
            assert (p * (1 + 1e-12) >= share / (n_arms * (1 + share))).all()
            assert p.sum() == pytest.approx(1, abs=1e-12)
        for _ in range(20):
            action = run.act()
            run.settle(ArmFeedback(action.arm, float(rng.random() < 0.5), action.slot))  # type: ignore[union-attr]


@pytest.mark.slow
def test_a_new_arm_that_is_best_is_found():
    """Centred Tsallis: 3,000 slots after the new arm came, it is played most."""
    run = learned("centred_tsallis", slots=2000)
    change(run, ["best"], ["a"])
    rng = np.random.default_rng(9)
    for _ in range(3000):
        action = run.act()
        assert isinstance(action, ArmAction)
        loss = 0.05 if action.arm == 5 else 0.3
        run.settle(ArmFeedback(action.arm, float(rng.random() < loss)))

    assert run.probabilities[run.arms.positions[5]] > 0.8  # type: ignore[union-attr]


def test_the_arms_give_an_index_once():
    arms = Arms.of(2, ["a", "b"])
    again = arms.changed(arms.change(["a", "b", "c", "c"], ["a", "zz"]))

    assert (again.names, again.shown_names) == ({1: "b", 2: "a", 3: "c"}, ["b", "a", "c"])
    assert (again.live, again.labels) == ([1, 2, 3], {"a": 2, "b": 1, "c": 3})
    assert (again.size, again.removed) == (4, {})
    assert arms.shown_names == ["a", "b"]
    assert again.change(["b"], ["zz"]) == ([], [])
