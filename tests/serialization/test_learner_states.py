"""States hold what their annotations say, so that a codec can keep them exactly; and are never mutated."""

from typing import get_type_hints

import numpy as np
import pytest

from service.engine.ledger import ArmAction, ArmFeedback, PointFeedback
from service.learners.base import FloatArray, Information, IntArray, Rows
from tests.support import vectors
from tests.support.runs import start

TYPES = {int: (int, np.integer), float: (float, int), bool: (bool, np.bool_)}


def event(run, action, rng):
    if isinstance(action, ArmAction):
        return ArmFeedback(action.arm, float(rng.random()), action.slot)
    return PointFeedback(rng.normal(size=action.x.size + (run.learner.information is Information.LOSSES)))


def walk(spec):
    """The states of a run with delays up to 3."""
    run = start(spec, seed=1)
    rng, waiting, states = np.random.default_rng(1), [], [run.state]
    for t in range(60):
        waiting.append(run.act())
        states.append(run.state)
        while len(waiting) > t % 4:
            run.settle(event(run, waiting.pop(0), rng))
            states.append(run.state)
    return states


@pytest.mark.parametrize("spec", vectors.specs())
def test_fields_are_what_they_are_annotated_as(spec):
    for state in walk(spec):
        for value, (name, hint) in zip(state, get_type_hints(type(state)).items(), strict=True):
            if name in type(state)._field_defaults:
                continue
            if hint == Rows:
                assert all(row.dtype == np.float64 and np.isfinite(row).all() for row in value)
                continue
            if hint == FloatArray:
                assert value.dtype == np.float64
            elif hint == IntArray:
                assert value.dtype == np.int64
            else:
                assert isinstance(value, TYPES[hint])
            assert np.isfinite(value).all()


@pytest.mark.parametrize("spec", vectors.specs())
def test_earlier_states_stay_as_they_were(spec):
    first, second = walk(spec), walk(spec)
    stored = len(get_type_hints(type(first[0]))) - len(type(first[0])._field_defaults)
    copies = [[np.copy(part) for part in state[:stored]] for state in first]

    for state, copy, again in zip(first, copies, second, strict=True):
        for part, copied, repeated in zip(state[:stored], copy, again[:stored], strict=True):
            np.testing.assert_array_equal(part, copied)
            np.testing.assert_array_equal(part, repeated)
