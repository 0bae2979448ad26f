"""The session of a replay: rates of theorems, and what makes no sense."""

import json
from pathlib import Path

import numpy as np
import pytest

from loadtest.errors import DataError, LoadTestError
from loadtest.replay.session import RateChoice, plan_session
from loadtest.replay.worlds import (
    Quadratic,
    bco_synthetic,
    bco_yacht,
    mab_synthetic,
    periodic_delays,
    strict_delays,
    total_delay,
)
from tests.support.replays import plan

RECORDED_DELAYS = json.loads((Path(__file__).parent / "data" / "delays.json").read_text())


@pytest.mark.parametrize("case", RECORDED_DELAYS["sums"], ids=lambda case: f"{case['T']}-{case['clamp']}")
def test_sums_of_delays(case):
    sums = total_delay(case["T"])._asdict() | {"none": periodic_delays(case["T"]).sum()}
    assert sums[case["clamp"]] == case["D"]


def test_the_paper_prints_the_sum_with_only_the_last_delay_cut():
    assert {slots: total_delay(int(slots)).last for slots in RECORDED_DELAYS["paper"]} == RECORDED_DELAYS["paper"]
    assert total_delay(0) == (0, 0)


def test_delays_one_by_one():
    assert strict_delays(20).tolist() == RECORDED_DELAYS["T=20 strict"]


RECORDED = json.loads((Path(__file__).parent / "data" / "environments.json").read_text())


def yacht(folder):
    """Forty invented rows in the yacht file's layout, doubled blanks included."""
    rows = np.random.default_rng(3).uniform(-2, 60, (40, 7))
    path = folder / "yacht.data"
    path.write_text("".join(" ".join(f"{cell:.3f} " for cell in row) + "\n" for row in rows) + "\n")
    return bco_yacht(path)


def test_synthetic_losses_of_arms_are_those_recorded():
    losses = mab_synthetic().losses

    for slot, expected in RECORDED["mab_synthetic"].items():
        assert losses[int(slot) - 1].tolist() == pytest.approx(expected, rel=1e-14)
    assert losses.max() == pytest.approx(RECORDED["mab_max"], rel=1e-14)
    assert losses.sum(axis=0).tolist() == pytest.approx(RECORDED["mab_column_sums"], rel=1e-12)


def test_uniform_play_on_the_synthetic_losses():
    world = mab_synthetic()

    assert world.best_fixed().action == 0
    assert (world.baseline().losses - world.best_fixed().losses).mean() == pytest.approx(0.3183, abs=5e-5)


def test_synthetic_losses_of_points_are_those_recorded():
    world, recorded = bco_synthetic(), RECORDED["bco_synthetic"]

    for slot, a in recorded["a"].items():
        assert world.numbers[int(slot) - 1] == pytest.approx(a, rel=1e-14)
        assert world.vectors[int(slot) - 1].tolist() == pytest.approx(recorded["b"][slot], rel=1e-14)
    best = world.best_fixed()
    assert best.action == pytest.approx(recorded["xstar"], abs=1e-12)
    assert best.losses.sum() == pytest.approx(recorded["f_star_sum"], rel=1e-12)


@pytest.mark.parametrize("make", [lambda _: bco_synthetic(50), yacht], ids=["synthetic", "yacht"])
def test_losses_gradients_and_sums_agree(make, tmp_path):
    world = make(tmp_path)
    x, step = np.random.default_rng(1).uniform(-0.3, 0.3, world.vectors.shape[1]), 1e-6
    for t in (1, 2, world.slots):
        ahead, behind = (world.loss(t, x + sign * step * np.eye(world.vectors.shape[1])) for sign in (1, -1))
        assert world.gradient(t, x) == pytest.approx((ahead - behind) / (2 * step), abs=1e-7)
    each = [float(world.loss(t, x)) for t in range(1, world.slots + 1)]
    assert world.losses_at(x) == pytest.approx(each, abs=1e-12)


@pytest.mark.parametrize("make", [lambda _: bco_synthetic(50), yacht], ids=["synthetic", "yacht"])
def test_no_point_of_the_ball_is_better_than_the_best(make, tmp_path):
    world = make(tmp_path)
    best = world.best_fixed()
    rng = np.random.default_rng(2)
    for _ in range(200):
        direction = rng.normal(size=world.vectors.shape[1])
        x = direction / np.linalg.norm(direction) * rng.random() ** (1 / world.vectors.shape[1])
        assert world.losses_at(x).sum() >= best.losses.sum() - 1e-9


def test_the_minimiser_on_the_edge_of_the_ball():
    """2 x^2 + y^2 - 8 x - 8 y pulls far outside; there the gradient is normal to the edge."""
    quadratic = Quadratic(np.diag([2.0, 1.0]), np.array([-8.0, -8.0]))
    x = quadratic.minimiser(1.0)
    gradient = 2 * quadratic.a @ x + quadratic.b

    assert np.linalg.norm(x) == pytest.approx(1.0, abs=1e-12)
    assert gradient / np.linalg.norm(gradient) == pytest.approx(-x, abs=1e-9)


def test_yacht_columns_are_scaled_to_0_and_1(tmp_path):
    world = yacht(tmp_path)

    assert (world.vectors.min(axis=0).tolist(), world.vectors.max(axis=0).tolist()) == ([0.0] * 6, [1.0] * 6)
    assert (world.numbers.min(), world.numbers.max()) == (0.0, 1.0)


@pytest.mark.parametrize("text", ["1 2 3\n", "1 2 3 4 5 6 x\n", "1 2 3 4 5 6 nan\n", "1 2 3 4 5 6 7\n" * 3])
def test_a_file_that_is_not_the_yacht_data_is_refused(tmp_path, text):
    path = tmp_path / "yacht.data"
    path.write_text(text)

    with pytest.raises(DataError, match=r"yacht\.data"):
        bco_yacht(path)
    with pytest.raises(DataError, match="gone"):
        bco_yacht(tmp_path / "gone")


def test_the_real_yacht_data(real_yacht):
    world = bco_yacht(real_yacht)

    assert (world.slots, world.vectors.shape[1]) == (308, 6)
    assert np.linalg.norm(world.best_fixed().action) < 1


def test_theorem_rates_know_the_stream():
    told = {"horizon": 2000, "max_delay": 3, "total_delay": 2569}
    assert plan(rates=RateChoice.THEOREM).learner == {"kind": "dexp3", "n_arms": 5} | told


@pytest.mark.parametrize(
    ("kind", "rates", "options", "message"),
    [
        ("nothing", RateChoice.AUTO, {}, "no learner 'nothing'"),
        ("dexp3", RateChoice.AUTO, {"los_clip": 1}, "los_clip"),
        ("dexp3", RateChoice.ANYTIME, {"horizon": 5}, "or give none of these"),
        ("dexp3", RateChoice.THEOREM, {"horizon": 5, "total_delay": 0}, "must exceed"),
        ("centred_tsallis", RateChoice.THEOREM, {}, "has no theorem's rates"),
        ("dbgd", RateChoice.AUTO, {}, "dbgd: dim: Field required"),
    ],
)
def test_a_session_that_makes_no_sense_is_refused(kind, rates, options, message):
    with pytest.raises(LoadTestError, match=message):
        plan_session(mab_synthetic(), kind, rates, 0, options)
