"""Specifications say where rates come from, and refuse what makes no sense."""

import pickle

import pytest
from pydantic import ValidationError

from service.learners import REGISTRY
from service.learners.descent import DbgdSpec
from service.learners.dexp3 import Dexp3Spec
from service.learners.specs import ArmsSpec, PointsSpec, RatedSpec
from tests.support import vectors

BALL = {"dim": 2, "feasible_set": {"kind": "ball", "radius": 1.0}}
GIVEN = {"learning_rate": 0.1, "loss_clip": 2.0, "probability_floor": 0.1}
THEOREM = {"horizon": 100, "max_delay": 3, "total_delay": 50}
TWO, BOTH = {"n_arms": 2}, {"learning_rate": 0.1, "perturbation": 0.01}


def resolved(kind, fields):
    learner = REGISTRY[kind].model_validate(fields).build()
    return learner.rates(learner.start())


@pytest.mark.parametrize(("fields", "mode"), [(GIVEN, "given"), (THEOREM, "theorem"), ({}, "anytime")])
def test_dexp3_has_three_ways_to_get_rates(fields, mode):
    rates = resolved("dexp3", {"n_arms": 3} | fields)

    assert rates["rates"] == mode
    assert set(rates) == {"rates", *GIVEN}


@pytest.mark.parametrize(
    ("fields", "mode"),
    [
        ({"learning_rate": 0.1, "perturbation": 0.01}, "given"),
        ({"horizon": 100, "total_delay": 50}, "theorem"),
        (THEOREM, "theorem"),
        ({"perturbation": 0.01}, "anytime"),
        ({}, "anytime"),
    ],
)
def test_dbgd_has_three_ways_to_get_rates(fields, mode):
    rates = resolved("dbgd", BALL | fields)

    assert rates["rates"] == mode
    assert rates["perturbation"] == fields.get("perturbation", 1 / 150 if "horizon" in fields else 1e-3)
    assert (rates["learning_rate"] is None) == (mode == "anytime")


@pytest.mark.parametrize(
    ("spec", "fields"),
    [
        (Dexp3Spec, GIVEN | THEOREM),
        *((Dexp3Spec, GIVEN | more) for more in ({"horizon": 100}, {"rate_scale": 2.0}, {"max_outstanding": 5})),
        *((Dexp3Spec, THEOREM | more) for more in ({"learning_rate": 0.1}, {"max_outstanding": 5})),
        (Dexp3Spec, {"horizon": 100, "max_delay": 3}),
        *((spec, {"learning_rate": 0.1}) for spec in (Dexp3Spec, DbgdSpec)),
        *((spec, {"horizon": 100}) for spec in (Dexp3Spec, DbgdSpec)),
        *((spec, {"rate_scale": 2.0}) for spec in (Dexp3Spec, DbgdSpec)),
        *((DbgdSpec, BOTH | more) for more in ({"horizon": 100}, {"max_delay": 1})),
        *((DbgdSpec, {name: 5}) for name in ("total_delay", "max_delay")),
        (DbgdSpec, {"perturbation": 0.01, "max_delay": 5}),
        (DbgdSpec, {"perturbation": 0.01, "horizon": 100, "total_delay": 5}),
    ],
    ids=str,
)
def test_mixtures_are_refused(spec, fields):
    with pytest.raises(ValidationError, match=r"or give |multiplies|belongs to"):
        spec.model_validate(({"n_arms": 3} if spec is Dexp3Spec else BALL) | fields)


@pytest.mark.parametrize(
    ("spec", "fields"),
    [
        *((Dexp3Spec, {"n_arms": n_arms}) for n_arms in (0, 1.5, -3, True, "3", 2**53)),
        *((Dexp3Spec, {"arms": arms}) for arms in ([], ["a", "a"], ["a", ""], ["a", "b\n"], ["a", 1])),
        (Dexp3Spec, {}),
        (Dexp3Spec, TWO | {"arms": ["a", "b"]}),
        (Dexp3Spec, TWO | {"gama": 0.1}),
        *((Dexp3Spec, TWO | THEOREM | {"horizon": horizon}) for horizon in (0, 2**53 + 1)),
        *((Dexp3Spec, TWO | THEOREM | wrong) for wrong in ({"max_delay": -1}, {"total_delay": 0.5})),
        (Dexp3Spec, TWO | {"horizon": 6, "total_delay": 0, "max_delay": 3}),
        (Dexp3Spec, TWO | {"horizon": 2, "total_delay": 0, "max_delay": 0}),
        *(
            (Dexp3Spec, TWO | GIVEN | {name: value})
            for name in GIVEN
            for value in (0.0, -1.0, float("nan"), 1e308, 1e-18)
        ),
        (Dexp3Spec, TWO | GIVEN | {"probability_floor": 1.5}),
        *((DbgdSpec, BALL | {"dim": dim}) for dim in (0, 2.5, True)),
        *((DbgdSpec, BALL | {"perturbation": delta}) for delta in (1.0, 1.5, 0.0, 1e-13, float("nan"))),
        *((DbgdSpec, BALL | BOTH | {"learning_rate": rate}) for rate in (-1.0, float("inf"))),
        *((DbgdSpec, BALL | {"horizon": horizon, "total_delay": 0}) for horizon in (1, 2**53 - 1)),
        (DbgdSpec, BALL | {"horizon": 100, "total_delay": 0, "rate_scale": 100.0}),
        (DbgdSpec, BALL | {"feasible_set": None}),
    ],
    ids=str,
)
def test_nonsense_is_refused(spec, fields):
    with pytest.raises(ValidationError):
        spec.model_validate(fields)


@pytest.mark.parametrize(
    "kind", [kind for kind, spec in REGISTRY.items() if issubclass(spec, ArmsSpec) and issubclass(spec, RatedSpec)]
)
def test_missing_arms_are_named_before_rates_are_computed_from_them(kind):
    theorem = {"horizon": 100, "max_delay": 3, "total_delay": 300}
    given = {name: value for name, value in theorem.items() if name in REGISTRY[kind].model_fields}
    with pytest.raises(ValidationError, match="give either n_arms or arms"):
        REGISTRY[kind].model_validate(given)


def test_json_numbers_are_read_strictly():
    assert Dexp3Spec.model_validate_json('{"kind": "dexp3", "n_arms": 2}').n_arms == 2
    for text in ('{"n_arms": "2"}', '{"n_arms": 2.5}', '{"n_arms": true}', '{"n_arms": 2, "learning_rate": NaN}'):
        with pytest.raises(ValidationError):
            Dexp3Spec.model_validate_json(text)


def test_rated_learners_have_a_theorem():
    for kind, spec in REGISTRY.items():
        has = not issubclass(spec, RatedSpec) or spec.rate_fields.theorem
        assert has, f"{kind} has no theorem: inherit ArmsSpec or PointsSpec without RatedSpec"


@pytest.mark.parametrize("kind", [kind for kind, spec in REGISTRY.items() if issubclass(spec, PointsSpec)])
def test_learners_over_points_take_the_memory_of_some_points(kind):
    dim = 1000
    fields = vectors.traces(kind)[0]["spec"] | {"dim": dim, "feasible_set": BALL["feasible_set"]}
    learner = REGISTRY[kind].model_validate(fields).build()
    learner.query_points(learner.start())

    assert len(pickle.dumps(learner)) < 10 * dim * 8


def test_every_kind_is_its_own_key():
    for kind, spec in REGISTRY.items():
        assert spec.model_fields["kind"].default == kind
        assert (spec.__doc__ or "").strip()


@pytest.mark.parametrize("kind", vectors.kinds())
def test_views_show_the_fields_of_a_specification_and_nothing_computed_of_it(kind):
    example = next(iter(vectors.traces(kind)))
    spec = REGISTRY[kind].model_validate(example["spec"])
    before = spec.resolved()

    spec.build()

    assert spec.resolved().keys() == before.keys() <= type(spec).model_fields.keys()
