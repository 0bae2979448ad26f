"""Counts and what they rest on: delays of virtual slots as the ledger sums them, losses on the learner's scale."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.engine.ledger import LossRange
from service.engine.run import PointRun
from service.learners import REGISTRY
from service.learners.maths import LARGEST_DELAYS
from service.serialization import state as codec
from service.serialization.binary import CodecError
from tests.support import vectors
from tests.support.examples import examples
from tests.support.runs import start

POINTS = {"kind": "dbgd", "dim": 2, "feasible_set": {"kind": "ball", "radius": 1.0}}
DELAYS = pytest.mark.parametrize("case", vectors.load("delays")["virtual_slots"], ids=lambda case: str(case["d"]))


def virtual_slots(delays):
    """t(tau), s~ = tau - 1 - L_{t(tau)-1}, what is outstanding after each slot, and the sum of delays counted."""
    run, received, opened, order, outstanding = start(POINTS), 0, dict[int, int](), list[int](), list[int]()
    assert isinstance(run, PointRun)
    for t in range(1, len(delays) + 1):
        assert run.open_slot() == t
        opened[t] = received
        arrived = [s for s in range(1, t + 1) if s + delays[s - 1] == t]
        for _ in arrived:
            run.ledger.settle()
        received += len(arrived)
        order += arrived
        outstanding.append(run.ledger.outstanding)
    run.open_slot()
    assert run.ledger.feedbacks == received
    return order, [tau - opened[t] for tau, t in enumerate(order)], outstanding, run.ledger.total_delay


@DELAYS
def test_virtual_slots_and_outstanding_decisions_by_hand(case):
    """Every delay d_t keeps decision t outstanding at the end of d_t slots."""
    order, lags, outstanding, total = virtual_slots(case["d"])

    assert order == case["t_of_tau"]
    assert lags == case["s_tilde"]
    assert outstanding == case["outstanding_after_slot"]
    assert total == sum(case["d"])


@settings(max_examples=examples(500), deadline=None, derandomize=True)
@given(st.lists(st.integers(0, 30), min_size=1, max_size=60))
def test_lemma_index_and_the_ledgers_delay_sum(wanted):
    """Lemma index: the delays counted in virtual slots add up to D, and each is at most 2 d-bar."""
    delays = [min(delay, len(wanted) - t) for t, delay in enumerate(wanted, start=1)]

    order, lags, _, total = virtual_slots(delays)

    assert sorted(order) == list(range(1, len(delays) + 1))
    assert min(lags) >= 0
    assert max(lags) <= 2 * max(delays)
    assert sum(lags) == sum(delays) == total


@pytest.mark.parametrize(
    ("best", "worst", "loss", "learned"),
    [
        (0.0, 1.0, 0.0, 0.0),
        (0.0, 1.0, 1.0, 1.0),
        (0.0, 1.0, 0.25, 0.25),
        (10.0, -10.0, 10, 0.0),
        (10.0, -10.0, -10, 1.0),
        (10.0, -10.0, 0, 0.5),
        (1.0, 0.0, 1, 0.0),
        (1.0, 0.0, 0, 1.0),
        (1.0, 5.0, 4, 0.75),
    ],
)
def test_losses_are_mapped_from_best_to_worst(best, worst, loss, learned):
    assert LossRange(best, worst).learned(loss) == learned


@pytest.mark.parametrize(
    ("losses", "loss", "message"),
    [
        *((LossRange(), loss, r"\[0\.0, 1\.0\]") for loss in (1.0001, float("nan"), float("inf"))),
        (LossRange(0.0, 2.0, normalize=False), 2.5, r"\[0\.0, 2\.0\]"),
        (LossRange(-1.0, 2.0, normalize=False), -0.5, r"must be >= 0"),
    ],
)
def test_losses_outside_the_range_are_refused_with_the_range(losses, loss, message):
    with pytest.raises(ValueError, match=message):
        losses.learned(loss)


def test_raw_losses_pass_as_they_are():
    assert LossRange(0.0, 2.0, normalize=False).learned(1.75) == 1.75


@pytest.mark.parametrize("kind", ["dexp3", "multiscale_tsallis", "tsallis_delayed", "bold"])
@pytest.mark.parametrize("most_open", [9, 1000])
def test_sums_of_delays_stay_where_they_are_too_large(kind, most_open):
    """One by one and many at once, also if open slots are dropped; the state is stored and read."""
    fields = {"kind": kind, "n_arms": 3} | vectors.over_arms()[kind]
    fields |= {"max_open_slots": most_open} if "max_open_slots" in REGISTRY[kind].model_fields else {}
    run = start(fields)
    run.ledger.total_delay = LARGEST_DELAYS - 3
    sums = hasattr(run.state, "delay_sum")
    run.state = run.state._replace(delay_sum=LARGEST_DELAYS - 3) if sums else run.state
    for _ in range(4):
        run.act()
        run.act_all(12)

    again = codec.decode(codec.encode(run), run)

    assert again.ledger.total_delay == LARGEST_DELAYS == 2**53
    assert not sums or again.state.delay_sum == LARGEST_DELAYS
    assert np.isfinite(run.probabilities).all()


def test_a_loss_in_the_place_of_another_moves_the_mean_and_is_no_longer_alike():
    ledger = start({"kind": "fixed", "n_arms": 2}).ledger
    ledger.correct(0.1, 0.3)
    assert (ledger.losses, ledger.mean_loss) == (0, 0.0)
    ledger.learn(0.7)
    ledger.correct(0.3, 0.7)
    assert (ledger.mean_loss, ledger.equal_losses) == (0.3, True)
    ledger.learn(0.3)
    ledger.correct(0.1, 0.3)
    assert (ledger.losses, ledger.mean_loss, ledger.equal_losses) == (2, pytest.approx(0.2), False)
    ledger.correct(0.0, 0.5)
    assert ledger.mean_loss == 0.0


def test_counts_of_goals_that_no_session_has_are_not_read():
    run = start({"kind": "fixed", "n_arms": 2})
    run = replace(run, params=run.params._replace(goals={"a": 0.5, "b": 1.0}))
    for counts in ((3,), (3, 0.5), (3, -1), (3, math.nan)):
        run.ledger.goals = counts
        with pytest.raises(CodecError, match="goals"):
            codec.decode(codec.encode(run), run)
    run.ledger.goals = (3, 2**40)
    assert codec.decode(codec.encode(run), run).ledger.goals == (3, 2**40)
