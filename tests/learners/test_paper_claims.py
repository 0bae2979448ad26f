"""The paper's estimator bias and orderings, measured. Seeds are fixed, so the tests themselves never flicker."""

from typing import Any, NamedTuple

import numpy as np
import pytest

from service.learners import REGISTRY
from service.learners.base import FloatArray, Slot, SlotLearner, many
from service.learners.dexp3 import Dexp3, Rates

T = 2000
PERIOD = (1, 2, 1, 0, 3, 0, 2)
SLOTS = np.arange(1, T + 1)
DELAYS = [min(PERIOD[(t - 1) % len(PERIOD)], T - t) for t in SLOTS.tolist()]
TOTAL = sum(DELAYS)
LOSSES = np.where(SLOTS <= 500, 0.4 * abs(np.cos(SLOTS)), 0.2 * abs(np.sin(2 * SLOTS)))[:, None] * np.arange(1, 6)


class Figure(NamedTuple):
    mean: float
    error: float


def arms(kind: str, delays: list[int] = DELAYS, *, runs: int = 20, **fields: Any) -> Figure:
    """Normalised regret against the best arm, mean and standard error over runs."""
    learner: Any = REGISTRY[kind].model_validate({"n_arms": 5} | fields).build()
    rng, outstanding = np.random.default_rng(20), 0
    state, regret = many(learner.start(), runs), np.zeros(runs)
    late: dict[int, list[tuple[Any, ...]]] = {}
    for t, delay in enumerate(delays, start=1):
        slot = Slot(t, outstanding, rng.random(runs), rng.random(runs))
        state, drawn = learner.draw(learner.open(state, slot), slot)
        regret += learner.distribution(state) @ LOSSES[t - 1]
        record = {"record": learner.record(state, drawn)} if isinstance(learner, SlotLearner) else {}
        late.setdefault(t + delay, []).append((drawn, LOSSES[t - 1][drawn], record))
        outstanding += 1 - len(late.get(t, []))
        for arm, loss_, record in late.pop(t, []):
            state = learner.settle(state, arm, loss_, **record)
    regret = (regret - LOSSES.sum(axis=0).min()) / T
    return Figure(float(regret.mean()), float(regret.std(ddof=1) / np.sqrt(runs)))


def loss(world: tuple[float, FloatArray], x: FloatArray) -> Any:
    a, b = world
    return a * np.square(x).sum(axis=-1) + x @ b


def points(kind: str, delays: list[int] = DELAYS, **fields: Any) -> float:
    """Normalised regret against the best point of the ball, in the paper's synthetic BCO world."""
    spec = {"dim": 5, "feasible_set": {"kind": "ball", "radius": 1.0}} | fields
    learner: Any = REGISTRY[kind].model_validate(spec).build()
    a = np.cos(3 * SLOTS) + 3
    s, c = 2 * np.sin(2 * SLOTS), np.cos(2 * SLOTS)
    b = np.stack([s + 1, c - 2, s / 2, s - 2, np.full(T, 2.0)], axis=1)
    best = -b.sum(axis=0) / (2 * a.sum())
    state, regret, outstanding = learner.start(), 0.0, 0
    late: dict[int, list[FloatArray]] = {}
    for t, delay in enumerate(delays, start=1):
        state = learner.open(state, Slot(t, outstanding, 0.0))
        world = a[t - 1], b[t - 1]
        x, queries = learner.x(state), learner.query_points(state)
        gradient = 2 * a[t - 1] * x + b[t - 1]
        values = gradient if queries is None else np.append(loss(world, x), loss(world, queries))
        late.setdefault(t + delay, []).append(values)
        regret += loss(world, x) - loss(world, best)
        outstanding += 1
        for event in late.pop(t, []):
            outstanding -= 1
            state = learner.settle(state, event, outstanding)
    return float(regret / T)


def test_estimates_are_biased_exactly_as_the_paper_says():
    """Eq. (expectedloss): E[l^(k)] = l(k) p_s(k)/p_t(k).

    200,000 runs; each mean lies within 5 of its standard errors (false alarm below 1e-5 for a fresh seed).
    """
    runs, eta = 200_000, 0.01
    learner = Dexp3(3, Rates(learning_rate=eta, loss_clip=1e6, probability_floor=1e-12))
    p_s, p_t, losses = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.3, 0.5]), np.array([0.9, 0.5, 0.7])
    drawn = np.random.default_rng(4).choice(3, size=runs, p=p_s)
    state = many(learner.start().at(p_t, p_t), runs)

    after = learner.settle(state, drawn, losses[drawn]).p

    change = np.log(after / p_t)
    estimates = (change.max(axis=1, keepdims=True) - change) / eta
    errors = estimates.std(axis=0) / np.sqrt(runs)
    assert (abs(estimates.mean(axis=0) - losses * p_s / p_t) <= 5 * errors).all()


@pytest.mark.slow
def test_orderings_of_the_paper_hold_over_arms_at_its_rates():
    """EXP3 < BOLD < DEXP3 < CLW random by more than 10 standard errors of the difference in 20 runs.

    DEXP3 and CLW in blocks differ by a third of their noise here; DEXP3 may be worse by 3 standard errors at
    most (false alarm below 0.2 % for fresh seeds were they equal).
    """
    exp3 = arms("exp3", [0] * T, horizon=T)
    bold = arms("bold", horizon=T, max_delay=3)
    dexp3 = arms("dexp3", horizon=T, max_delay=3, total_delay=TOTAL)
    blocks = arms("clw", horizon=T, max_delay=3)
    random = arms("clw", horizon=T, max_delay=3, schedule="random")

    for better, worse in ((exp3, bold), (bold, dexp3), (dexp3, random)):
        assert worse.mean - better.mean > 10 * np.hypot(worse.error, better.error)
    assert dexp3.mean - blocks.mean <= 3 * np.hypot(dexp3.error, blocks.error)


@pytest.mark.parametrize(
    ("kind", "fields", "mean", "error"),
    [
        ("bold", {"horizon": T, "max_delay": 3}, 0.0967, 0.0007),
        ("dexp3", {"horizon": T, "max_delay": 3, "total_delay": TOTAL}, 0.1254, 0.0007),
        ("dexp3", {}, 0.0222, 0.0006),
        ("centred_tsallis", {}, 0.0128, 0.0002),
        ("clw", {"horizon": T, "max_delay": 3}, 0.1321, 0.0017),
        ("clw", {"horizon": T, "max_delay": 3, "schedule": "random"}, 0.2392, 0.0022),
    ],
)
def test_regret_is_what_an_independent_implementation_measured(kind, fields, mean, error):
    """Within 4 standard errors of the difference, of 100 runs there and here (false alarm 1e-4 each)."""
    figure = arms(kind, runs=100, **fields)

    assert abs(figure.mean - mean) <= 4 * np.hypot(figure.error, error)


def test_orderings_and_figures_over_points_at_the_papers_rates():
    """Deterministic; tolerance 1e-4. Delay helps here: the task is a resonance, so OGD comes out last."""
    none = [0] * T
    figures = {
        "ogd": points("ogd", none, horizon=T),
        "mbco": points("mbco", none, horizon=T),
        "solid": points("solid", horizon=T, total_delay=TOTAL),
        "dbgd": points("dbgd", horizon=T, total_delay=TOTAL),
        "clw_mbco": points("clw_mbco", horizon=T, max_delay=3),
        "anytime": points("dbgd"),
    }

    expected = {"ogd": 0.03450, "mbco": 0.03450, "solid": 0.01022, "dbgd": 0.01022, "clw_mbco": 0.01273}
    assert figures == pytest.approx(expected | {"anytime": 0.00758}, abs=1e-4)
    assert figures["solid"] <= figures["dbgd"] < figures["clw_mbco"]
    assert figures["ogd"] <= figures["mbco"]
