"""Estimates against simulated truth: intervals cover as often as they say."""

import math
from dataclasses import replace

import numpy as np
import pytest

from service.evaluation.command import MIN_EFFECTIVE, arm_means, policies
from service.evaluation.logs import Outcomes

MEANS = np.array([0.1, 0.3, 0.5])
LOGGING = np.array([0.5, 0.3, 0.2])
CONFIDENCE = 0.9


def simulated(rng, acts, *, ratings=False):
    """Acts of a policy that stays as it is: clicks, or ratings around the same means."""
    arms = rng.choice(3, size=acts, p=LOGGING)
    clicks = (rng.random(acts) < MEANS[arms]).astype(float)
    values = MEANS[arms] + rng.normal(size=acts) if ratings else clicks
    return Outcomes(arms, LOGGING[arms], np.full(acts, 3), values, "reward", {}, {})


def truth(estimate):
    return float(MEANS.mean() if estimate.name == "uniform" else MEANS[int(estimate.name[-1])])


def covered(runs, acts, *, ratings):
    rng = np.random.default_rng(7)
    for _ in range(runs):
        outcomes = simulated(rng, acts, ratings=ratings)
        for each in arm_means(outcomes, CONFIDENCE):
            yield "mean", each.ips is not None and each.ips.low <= truth(each) <= each.ips.high
        for each in policies(outcomes, CONFIDENCE):
            yield "ips", each.ips.low <= truth(each) <= each.ips.high
            yield "snips", each.snips.low <= truth(each) <= each.snips.high


@pytest.mark.slow
@pytest.mark.parametrize("ratings", [False, True], ids=["clicks", "ratings"])
def test_intervals_cover_at_the_stated_rate(ratings):
    """Within four standard errors of a rate over so many independent logs."""
    runs = 400
    found: dict[str, list[bool]] = {}
    for what, hit in covered(runs, 1500, ratings=ratings):
        found.setdefault(what, []).append(hit)

    error = math.sqrt(CONFIDENCE * (1 - CONFIDENCE) / runs)
    for what, hits in found.items():
        assert abs(np.mean(hits) - CONFIDENCE) < 4 * error, what


def test_estimates_are_unbiased():
    rng = np.random.default_rng(3)
    values = [[each.ips.value for each in policies(simulated(rng, 500), 0.95) if each.ips] for _ in range(200)]

    found = np.array(values)
    expected = np.array([MEANS.mean(), *MEANS])
    assert np.all(np.abs(found.mean(axis=0) - expected) < 4 * found.std(axis=0) / math.sqrt(200))


def test_too_little_data_is_said_and_no_number_given():
    outcomes = simulated(np.random.default_rng(1), 60)
    few = [each for each in policies(outcomes, 0.95) if each.name == "arm 2"]

    assert few[0].effective < MIN_EFFECTIVE
    assert (few[0].ips, few[0].snips) == (None, None)
    assert all(each.ips is None for each in arm_means(outcomes, 0.95) if each.acts < MIN_EFFECTIVE)


def test_the_effective_sample_size_of_an_arm_alone_is_its_acts():
    outcomes = simulated(np.random.default_rng(1), 1000)
    by_name = {each.name: each for each in policies(outcomes, 0.95)}

    assert by_name["arm 0"].effective == pytest.approx(np.count_nonzero(outcomes.arms == 0))
    assert by_name["uniform"].acts == 1000


@pytest.mark.parametrize("others", [(1.0,), (0.25, 0.5, 1.0)])
@pytest.mark.parametrize("value", [0.0, 0.1])
def test_an_arm_whose_acts_all_ended_alike_may_yet_have_another_mean(others, value):
    arms, values = np.repeat([0, 1], 60), np.full(120, value)
    values[60 : 60 + len(others)] = others
    outcomes = Outcomes(arms, np.full(120, 0.5), np.full(120, 2), values, "reward", {}, {})

    mean, alone = next(arm_means(outcomes, 0.95)).ips, list(policies(outcomes, 0.95))[1]

    for interval in (mean, alone.ips, alone.snips):
        assert interval.low <= value < interval.high - 0.03
    unknown = replace(outcomes, values=np.full(120, value))
    assert [each.ips for each in (*arm_means(unknown, 0.95), *policies(unknown, 0.95))] == [None] * 5
