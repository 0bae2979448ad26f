"""Specifications say where rates come from, and refuse what makes no sense."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from pydantic import ValidationError

from service.learners import REGISTRY
from service.learners.dbgd import DbgdSpec
from service.learners.dexp3 import Dexp3Spec
from service.learners.specs import ArmsSpec, PointsSpec, RatedSpec
from tests.support import vectors

BALL = {"dim": 2, "feasible_set": {"kind": "ball", "radius": 1.0}}
GIVEN = {"learning_rate": 0.1, "loss_clip": 2.0, "probability_floor": 0.1}
THEOREM = {"horizon": 100, "max_delay": 3, "total_delay": 50}


def resolved(kind: str, fields: dict[str, Any]) -> dict[str, Any]:
    learner = REGISTRY[kind].model_validate(fields).build()
    return learner.rates(learner.start())


@pytest.mark.parametrize(("fields", "mode"), [(GIVEN, "given"), (THEOREM, "theorem"), ({}, "anytime")])
def test_dexp3_has_three_ways_to_get_rates(fields: dict[str, Any], mode: str) -> None:
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
def test_dbgd_has_three_ways_to_get_rates(fields: dict[str, Any], mode: str) -> None:
    rates = resolved("dbgd", BALL | fields)

    assert rates["rates"] == mode
    assert rates["perturbation"] == fields.get("perturbation", 1 / 150 if "horizon" in fields else 1e-3)
    assert (rates["learning_rate"] is None) == (mode == "anytime")


@pytest.mark.parametrize(
    "fields",
    [
        GIVEN | THEOREM,
        GIVEN | {"horizon": 100},
        THEOREM | {"learning_rate": 0.1},
        {"learning_rate": 0.1},
        {"horizon": 100},
        {"horizon": 100, "max_delay": 3},
        {"rate_scale": 2.0},
        GIVEN | {"rate_scale": 2.0},
        GIVEN | {"max_outstanding": 5},
        THEOREM | {"max_outstanding": 5},
    ],
    ids=str,
)
def test_dexp3_refuses_mixtures(fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match=r"or give |multiplies|belongs to"):
        Dexp3Spec.model_validate({"n_arms": 3} | fields)


@pytest.mark.parametrize(
    "fields",
    [
        {"learning_rate": 0.1},
        {"learning_rate": 0.1, "perturbation": 0.01, "horizon": 100},
        {"learning_rate": 0.1, "perturbation": 0.01, "max_delay": 1},
        {"horizon": 100},
        {"total_delay": 5},
        {"max_delay": 5},
        {"perturbation": 0.01, "max_delay": 5},
        {"perturbation": 0.01, "horizon": 100, "total_delay": 5},
        {"rate_scale": 2.0},
    ],
    ids=str,
)
def test_dbgd_refuses_mixtures(fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match=r"or give |multiplies"):
        DbgdSpec.model_validate(BALL | fields)


@pytest.mark.parametrize(
    "fields",
    [
        {"n_arms": 0},
        {"n_arms": 1.5},
        {"n_arms": -3},
        {"n_arms": True},
        {"n_arms": "3"},
        {"n_arms": 2**53},
        {},
        {"n_arms": 2, "arms": ["a", "b"]},
        {"arms": []},
        {"arms": ["a", "a"]},
        {"arms": ["a", ""]},
        {"arms": ["a", "b\n"]},
        {"arms": ["a", 1]},
        {"n_arms": 2, "gama": 0.1},
        {"n_arms": 2, **THEOREM, "horizon": 0},
        {"n_arms": 2, **THEOREM, "horizon": 2**53 + 1},
        {"n_arms": 2, **THEOREM, "max_delay": -1},
        {"n_arms": 2, **THEOREM, "total_delay": 0.5},
        {"n_arms": 2, "horizon": 6, "total_delay": 0, "max_delay": 3},
        {"n_arms": 2, "horizon": 2, "total_delay": 0, "max_delay": 0},
        *(
            {"n_arms": 2, **GIVEN, name: value}
            for name in GIVEN
            for value in (0.0, -1.0, float("nan"), 1e308, 1e-18)
        ),
        {"n_arms": 2, **GIVEN, "probability_floor": 1.5},
    ],
    ids=str,
)
def test_dexp3_refuses_nonsense(fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Dexp3Spec.model_validate(fields)


@pytest.mark.parametrize(
    "fields",
    [
        {"dim": 0},
        {"dim": 2.5},
        {"dim": True},
        {"perturbation": 1.0},
        {"perturbation": 1.5},
        {"perturbation": 0.0},
        {"perturbation": 1e-13},
        {"perturbation": float("nan")},
        {"learning_rate": -1.0, "perturbation": 0.1},
        {"learning_rate": float("inf"), "perturbation": 0.1},
        {"horizon": 1, "total_delay": 0},
        {"horizon": 100, "total_delay": 0, "rate_scale": 100.0},
        {"horizon": 2**53 - 1, "total_delay": 0},
        {"feasible_set": None},
    ],
    ids=str,
)
def test_dbgd_refuses_nonsense(fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        DbgdSpec.model_validate(BALL | fields)


def test_messages_name_what_to_change() -> None:
    with pytest.raises(ValidationError, match="give horizon and total_delay together without them, or give none"):
        DbgdSpec.model_validate(BALL | {"learning_rate": 0.1})
    with pytest.raises(ValidationError, match=r"smaller than the feasible set's inradius, 1"):
        DbgdSpec.model_validate(BALL | {"perturbation": 2.0})
    with pytest.raises(ValidationError, match="must exceed 2 max_delay"):
        Dexp3Spec.model_validate({"n_arms": 2, "horizon": 6, "total_delay": 0, "max_delay": 3})


@pytest.mark.parametrize(
    "kind", [kind for kind, spec in REGISTRY.items() if issubclass(spec, ArmsSpec) and issubclass(spec, RatedSpec)]
)
def test_missing_arms_are_named_before_rates_are_computed_from_them(kind: str) -> None:
    theorem = {"horizon": 100, "max_delay": 3, "total_delay": 300}
    given = {name: value for name, value in theorem.items() if name in REGISTRY[kind].model_fields}
    with pytest.raises(ValidationError, match="give either n_arms or arms"):
        REGISTRY[kind].model_validate(given)


def test_json_numbers_are_read_strictly() -> None:
    assert Dexp3Spec.model_validate_json('{"kind": "dexp3", "n_arms": 2}').n_arms == 2
    for text in ('{"n_arms": "2"}', '{"n_arms": 2.5}', '{"n_arms": true}', '{"n_arms": 2, "learning_rate": NaN}'):
        with pytest.raises(ValidationError):
            Dexp3Spec.model_validate_json(text)


def test_rated_learners_have_a_theorem() -> None:
    for kind, spec in REGISTRY.items():
        has = not issubclass(spec, RatedSpec) or spec.rate_fields.theorem
        assert has, f"{kind} has no theorem: inherit ArmsSpec or PointsSpec without RatedSpec"


@pytest.mark.parametrize("kind", [kind for kind, spec in REGISTRY.items() if issubclass(spec, PointsSpec)])
def test_learners_over_points_take_the_memory_of_some_points(kind: str) -> None:
    dim = 1000
    fields = vectors.traces(kind)[0]["spec"] | {"dim": dim, "feasible_set": BALL["feasible_set"]}
    learner = REGISTRY[kind].model_validate(fields).build()
    learner.query_points(learner.start())

    assert len(pickle.dumps(learner)) < 10 * dim * 8


def test_every_kind_is_its_own_key() -> None:
    for kind, spec in REGISTRY.items():
        assert spec.model_fields["kind"].default == kind
        assert (spec.__doc__ or "").strip()


@pytest.mark.parametrize("kind", vectors.kinds())
def test_views_show_the_fields_of_a_specification_and_nothing_computed_of_it(kind: str) -> None:
    example = next(iter(vectors.traces(kind)))
    spec = REGISTRY[kind].model_validate(example["spec"])
    before = spec.resolved()

    spec.build()

    assert spec.resolved().keys() == before.keys() <= type(spec).model_fields.keys()
