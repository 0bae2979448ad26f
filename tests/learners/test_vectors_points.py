"""Learners over points reproduce their hand-derived and recorded traces."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from service.learners.base import PointLearner
from tests.support import vectors


@pytest.mark.parametrize("trace", vectors.all_traces("dim"))
def test_learner_follows_its_trace(trace: dict[str, Any]) -> None:
    learner = vectors.build(trace)
    assert isinstance(learner, PointLearner)
    tolerance, state = trace["tolerance"], None

    for what, row, state, _ in vectors.point_moments(learner, trace):
        if what != "end" and "x" in row:
            np.testing.assert_allclose(learner.x(state), row["x"], rtol=0, atol=tolerance)
        for name, value in row.get("state", {}).items() if what == "event" else ():
            assert getattr(state, name) == pytest.approx(value, rel=tolerance)

    np.testing.assert_allclose(learner.x(state), trace["x_end"], rtol=0, atol=tolerance)
