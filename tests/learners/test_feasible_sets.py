"""Projections are exact, and every query point lies in the feasible set, judged without tolerance."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.learners.base import Slot
from service.learners.descent import DbgdSpec
from service.learners.maths import project_onto_face, project_onto_simplex
from tests.support.examples import examples
from tests.support.feasible_sets import contains

SETS = [
    {"kind": "ball", "radius": 1.0},
    {"kind": "ball", "radius": 1e-3, "center": [1e4, 1.0, -3.0]},
    {"kind": "box", "lower": [-1.0, -2.0, 1e5], "upper": [2.0, 1.0, 1e5 + 1]},
    {"kind": "box", "lower": [0.1, 0.2, 0.3], "upper": [0.7, 0.9, 1.1]},
    {"kind": "simplex", "total": 1.0},
    {"kind": "simplex", "total": 0.3},
    {"kind": "box", "lower": [0.0, -1e-9, 2e-9], "upper": [1e-9, 1e-9, 3e-9]},
    {"kind": "ball", "radius": 1e-29, "center": [1e-28, 0.0, 0.0]},
    {"kind": "simplex", "total": 1e-29},
]


def spec(feasible_set, dim=3, **rates):
    return DbgdSpec.model_validate({"dim": dim, "feasible_set": feasible_set, **rates})


def build_set(feasible_set, dim=3):
    return spec(feasible_set, dim).build_set()


@pytest.mark.parametrize(
    ("feasible_set", "center", "inradius", "diameter"),
    [
        ({"kind": "ball", "radius": 2.0}, [0, 0], 2, 4),
        ({"kind": "ball", "radius": 2.0, "center": [1, -1]}, [1, -1], 2, 4),
        ({"kind": "box", "lower": [-1, -2], "upper": [2, 2]}, [0.5, 0], 1.5, 5),
        ({"kind": "simplex", "total": 2.0}, [2 / (2 + 2**0.5)] * 2, 2 / (2 + 2**0.5), 2 * 2**0.5),
    ],
)
def test_center_inradius_and_diameter(feasible_set, center, inradius, diameter):
    body = build_set(feasible_set, dim=2)

    np.testing.assert_allclose(body.center, center, rtol=1e-15)
    assert body.inradius == pytest.approx(inradius, rel=1e-15)
    assert body.diameter == pytest.approx(diameter, rel=1e-15)


@pytest.mark.parametrize("feasible_set", SETS, ids=str)
@pytest.mark.parametrize("share", [1e-6, 1e-3, 0.5, 0.999])
def test_query_points_lie_in_the_set_from_wherever_x_was_pushed(feasible_set, share):
    body = build_set(feasible_set)
    perturbation = max(share * body.inradius, 1e-12 * body.reach)
    learner = spec(feasible_set, learning_rate=1.0, perturbation=perturbation).build()
    rng = np.random.default_rng(7)
    z = learner.feasible_set.center + rng.normal(size=(20_000, 3)) * 10 ** rng.uniform(-6, 60, size=(20_000, 1))

    x = learner.feasible_set.onto_shrunk(learner.perturbation)(z)

    assert contains(learner.feasible_set, x).all()
    assert contains(learner.feasible_set, learner.query_points(learner.start()._replace(x=x))).all()


@pytest.mark.parametrize("feasible_set", SETS, ids=str)
def test_projection_is_the_nearest_point(feasible_set):
    """(z - Px)'(y - Px) <= 0 for all y of the set, the mark of a projection; 1e-9 is left for rounding."""
    body = build_set(feasible_set)
    project = body.onto_shrunk(body.inradius / 4)
    rng = np.random.default_rng(11)
    z = body.center + 3 * body.inradius * rng.normal(size=(500, 1, 3))
    y = project(body.center + 3 * body.inradius * rng.normal(size=(1, 200, 3)))

    px = project(z)

    assert (np.einsum("ijk,ijk->ij", (z - px), (y - px)) <= 1e-9 * body.inradius * body.reach).all()


@pytest.mark.parametrize("dim", [1, 2, 1000])
@pytest.mark.parametrize("feasible_set", [{"kind": "ball", "radius": 1}, {"kind": "simplex", "total": 1}], ids=str)
def test_any_dimension_has_feasible_query_points(feasible_set, dim):
    learner = spec(feasible_set, dim).build()
    z = np.random.default_rng(3).normal(size=dim) * 100

    x = learner.feasible_set.onto_shrunk(learner.perturbation)(z)

    assert contains(learner.feasible_set, learner.query_points(learner.start()._replace(x=x))).all()


@pytest.mark.parametrize("size", [1.0, 1e-9, 1e-29])
def test_x_leaves_a_corner_when_the_losses_turn(size):
    learner = spec({"kind": "box", "lower": [0.0] * 3, "upper": [size] * 3}).build()
    state = learner.start()

    def push(direction, state):
        for t in range(1000):
            state = learner.open(state, Slot(t + 1, 0, 0.0))
            points = np.vstack([state.x, learner.query_points(state)])
            assert contains(learner.feasible_set, points).all()
            state = learner.settle(state, direction * points.sum(axis=-1), 0)
        return state

    state = push(-1.0, state)
    np.testing.assert_allclose(state.x / size, 0.9995, atol=1e-12)
    state = push(1.0, state)

    assert (state.x < 0.5 * size).all()


def test_simplex_projections_by_hand():
    assert project_onto_face(np.array([0.5, 0.0]), 1.0).tolist() == [0.75, 0.25]
    assert project_onto_face(np.array([3.0, 0.0, 0.0]), 1.0).tolist() == [1.0, 0.0, 0.0]
    assert project_onto_simplex(np.array([0.25, -1.0]), 1.0).tolist() == [0.25, 0.0]
    assert project_onto_simplex(np.array([[1.0, 1.0], [0.25, 0.5]]), 1.0).tolist() == [[0.5, 0.5], [0.25, 0.5]]


@settings(max_examples=examples(200), deadline=None, derandomize=True)
@given(st.lists(st.floats(-1e30, 1e30), min_size=1, max_size=12), st.floats(1e-6, 1e6))
def test_face_projection_meets_its_optimality_conditions(values, total):
    """x = max(z - theta, 0) with sum x = total: z - x is the same for all entries above 0."""
    z = np.array(values)

    x = project_onto_face(z, total)

    assert (x >= 0).all()
    assert x.sum() == pytest.approx(total, rel=1e-12)
    fallen = (z - z.max()) - x
    theta = fallen[x.argmax()]
    assert (fallen[x > 1e-12 * total] >= theta - 1e-12 * total).all()
    assert (z - z.max() <= theta + x + 1e-12 * total).all()


@pytest.mark.parametrize(
    ("feasible_set", "message"),
    [
        *(({"kind": "ball", "radius": radius}, "greater than 0") for radius in (0, -1.0)),
        *(({"kind": "ball", "radius": radius}, "finite") for radius in (float("nan"), float("inf"))),
        ({"kind": "ball", "radius": 1e-31}, "at least 1e-30"),
        ({"kind": "box", "lower": [0.0, 0.0], "upper": [1e-9, 1e-18]}, "at least 2e-18"),
        ({"kind": "ball", "radius": 1.0, "center": [0.0]}, "dim = 2"),
        ({"kind": "ball", "radius": 1.0, "center": [1e11, 0.0]}, "too thin"),
        *(({"kind": "ball", "radius": radius}, "valid number") for radius in (True, "1")),
        ({"kind": "ball", "radius": 1.0, "centre": [0, 0]}, "Extra inputs"),
        ({"kind": "box", "lower": [0, 0], "upper": [1, 0]}, "index 1"),
        ({"kind": "box", "lower": [0, 0], "upper": [1]}, "same length"),
        ({"kind": "box", "lower": [0], "upper": [1]}, "dim = 2"),
        ({"kind": "box", "lower": [], "upper": []}, "at least 1"),
        ({"kind": "box", "lower": [0, float("nan")], "upper": [1, 1]}, "finite"),
        ({"kind": "simplex", "total": 0.0}, "greater than 0"),
        ({"kind": "simplex", "total": 1e13}, "less than or equal"),
        ({"kind": "cube"}, "does not match any of the expected tags"),
        ({"radius": 1.0}, "discriminator"),
    ],
    ids=str,
)
def test_degenerate_sets_are_refused(feasible_set, message):
    with pytest.raises(ValueError, match=message):
        spec(feasible_set, dim=2)
