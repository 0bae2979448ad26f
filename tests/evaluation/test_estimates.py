"""Estimates against simulated truth: intervals cover as often as they say."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest

from service.evaluation.command import MIN_EFFECTIVE, Estimate, arm_means, policies
from service.evaluation.logs import Outcomes, match

MEANS = np.array([0.1, 0.3, 0.5])
LOGGING = np.array([0.5, 0.3, 0.2])
CONFIDENCE = 0.9


def simulated(rng: np.random.Generator, acts: int, *, ratings: bool = False) -> Outcomes:
    """Acts of a policy that stays as it is: clicks, or ratings around the same means."""
    arms = rng.choice(3, size=acts, p=LOGGING)
    clicks = (rng.random(acts) < MEANS[arms]).astype(float)
    values = MEANS[arms] + rng.normal(size=acts) if ratings else clicks
    eligible = np.full(acts, 3)
    return Outcomes(arms, LOGGING[arms], eligible, values, "reward", {}, {})


def truth(estimate: Estimate) -> float:
    return float(MEANS.mean() if estimate.name == "uniform" else MEANS[int(estimate.name[-1])])


def covered(runs: int, acts: int, *, ratings: bool) -> Iterator[tuple[str, bool]]:
    rng = np.random.default_rng(7)
    for _ in range(runs):
        outcomes = simulated(rng, acts, ratings=ratings)
        for each in arm_means(outcomes, CONFIDENCE):
            yield "mean", each.ips is not None and each.ips.low <= truth(each) <= each.ips.high
        for each in policies(outcomes, CONFIDENCE):
            assert each.ips is not None
            assert each.snips is not None
            yield "ips", each.ips.low <= truth(each) <= each.ips.high
            yield "snips", each.snips.low <= truth(each) <= each.snips.high


@pytest.mark.slow
@pytest.mark.parametrize("ratings", [False, True], ids=["clicks", "ratings"])
def test_intervals_cover_at_the_stated_rate(ratings: bool) -> None:
    """Within four standard errors of a rate over so many independent logs."""
    runs = 400
    found: dict[str, list[bool]] = {}
    for what, hit in covered(runs, 1500, ratings=ratings):
        found.setdefault(what, []).append(hit)

    error = math.sqrt(CONFIDENCE * (1 - CONFIDENCE) / runs)
    for what, hits in found.items():
        assert abs(np.mean(hits) - CONFIDENCE) < 4 * error, what


def test_estimates_are_unbiased() -> None:
    rng = np.random.default_rng(3)
    values = [[each.ips.value for each in policies(simulated(rng, 500), 0.95) if each.ips] for _ in range(200)]

    found = np.array(values)
    expected = np.array([MEANS.mean(), *MEANS])
    assert np.all(np.abs(found.mean(axis=0) - expected) < 4 * found.std(axis=0) / math.sqrt(200))


def test_too_little_data_is_said_and_no_number_given() -> None:
    outcomes = simulated(np.random.default_rng(1), 60)
    few = [each for each in policies(outcomes, 0.95) if each.name == "arm 2"]

    assert few[0].effective < MIN_EFFECTIVE
    assert (few[0].ips, few[0].snips) == (None, None)
    assert all(each.ips is None for each in arm_means(outcomes, 0.95) if each.acts < MIN_EFFECTIVE)


def test_the_effective_sample_size_of_an_arm_alone_is_its_acts() -> None:
    outcomes = simulated(np.random.default_rng(1), 1000)
    by_name = {each.name: each for each in policies(outcomes, 0.95)}

    assert by_name["arm 0"].effective == pytest.approx(np.count_nonzero(outcomes.arms == 0))
    assert by_name["uniform"].acts == 1000


def entry(slot: int, arm: int) -> dict[str, object]:
    return {"kind": "act", "slot": slot, "arm": arm, "probability": 0.5, "eligible": 2, "label": "ab"[arm]}


def event(arm: int, outcome: str = "applied", **fields: object) -> dict[str, object]:
    return {"kind": "event", "arm": arm, "outcome": outcome} | fields


def test_events_are_those_of_the_oldest_open_act_of_their_arm_or_of_their_slot() -> None:
    acts = [entry(slot, arm) for slot, arm in ((1, 0), (2, 0), (3, 1), (4, 0))]
    events = [event(0, loss=0.1, slot=2), event(0, loss=0.2), event(1, loss=0.3, slot=9), event(0, loss=0.4)]

    outcomes = match([*acts, *events])

    assert outcomes.values.tolist() == [0.2, 0.1, 0.3, 0.4]
    assert outcomes.arms.tolist() == [0, 0, 1, 0]
    assert (outcomes.word, outcomes.labels) == ("loss", {0: "a", 1: "b"})


def test_acts_without_a_value_are_left_out_and_counted_by_why() -> None:
    acts = [entry(slot, 0) for slot in range(1, 6)] + [entry(6, 1)]
    ends = [
        event(0, "voided", loss=None),
        event(0, "expired", loss=None, count=2),
        event(0, "removed", loss=0.5),
        {"kind": "arms", "removed": ["b"]},
        event(0, loss=0.5),
        {"kind": "session", "changed": ["floor"]},
    ]

    outcomes = match([*acts, *ends])

    assert outcomes.values.tolist() == [0.5]
    assert outcomes.left_out == {
        "voided": 1,
        "expired without a default": 2,
        "removed with their arm": 1,
        "still open": 1,
    }


def test_the_last_window_is_left_out_where_missing_clicks_are_learned_at_its_end() -> None:
    acts = [entry(slot, 0) for slot in range(1, 6)]
    clicks = [event(0, reward=1.0), event(0, "expired", reward=0.0), event(0, reward=1.0, slot=4)]

    outcomes = match([*acts, *clicks])

    assert outcomes.values.tolist() == [1.0, 0.0]
    assert outcomes.left_out == {"in the last window": 3}
    assert outcomes.word == "reward"


def test_events_whose_acts_were_trimmed_are_counted() -> None:
    assert match([event(0, loss=0.5)]).left_out == {"trimmed from the log, with an event left": 1}


@pytest.mark.parametrize("damaged", [{"kind": "act", "slot": 1}, {"kind": "event", "arm": 0}, {"arm": 1}])
def test_what_is_no_entry_is_an_error(damaged: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="not an entry"):
        match([damaged])
