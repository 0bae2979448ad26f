"""The session of a replay: rates of theorems, and what makes no sense."""

from __future__ import annotations

import pytest

from loadtest.errors import LoadTestError
from loadtest.replay.arm_worlds import mab_synthetic
from loadtest.replay.plan import RateChoice, plan_session
from loadtest.replay.quadratic_worlds import bco_synthetic
from tests.support.replays import plan


def test_theorem_rates_know_the_stream() -> None:
    assert plan(rates=RateChoice.THEOREM).learner == {
        "kind": "dexp3",
        "n_arms": 5,
        "horizon": 2000,
        "max_delay": 3,
        "total_delay": 2569,
    }


@pytest.mark.parametrize(
    ("kind", "rates", "options", "message"),
    [
        ("nothing", RateChoice.AUTO, {}, "no learner 'nothing'"),
        ("dexp3", RateChoice.AUTO, {"los_clip": 1}, "los_clip"),
        ("dexp3", RateChoice.ANYTIME, {"horizon": 5}, "or give none of these"),
        ("dexp3", RateChoice.THEOREM, {"horizon": 5, "total_delay": 0}, "must exceed"),
    ],
)
def test_a_session_that_makes_no_sense_is_refused(
    kind: str, rates: RateChoice, options: dict[str, object], message: str
) -> None:
    with pytest.raises(LoadTestError, match=message):
        plan_session(mab_synthetic(), kind, rates, 0, options)


def test_a_learner_without_a_theorem_has_no_theorems_rates() -> None:
    with pytest.raises(LoadTestError, match="has no theorem's rates"):
        plan_session(mab_synthetic(), "centred_tsallis", RateChoice.THEOREM, 0, {})


def test_a_learner_over_arms_cannot_play_points() -> None:
    with pytest.raises(LoadTestError, match="exp3"):
        plan_session(bco_synthetic(), "exp3", RateChoice.AUTO, 0, {})


def test_a_learner_over_points_cannot_play_arms() -> None:
    with pytest.raises(LoadTestError, match="dbgd"):
        plan_session(mab_synthetic(), "dbgd", RateChoice.AUTO, 0, {})
