"""What every learner is: a function of parameters, state and inputs to a new state and outputs.

A learner does no I/O, reads no clock and draws no random numbers. Its state is a ``NamedTuple`` of integers,
floats and numpy arrays, which is replaced and never mutated, so that a caller may keep earlier states. Shapes are
written (..., n): the leading axes are there where many runs are stepped at once, one entry for each run.
"""

from __future__ import annotations

from .arm_learner import ArmLearner
from .arm_learner_kinds import PooledLearner, ProvisionalLearner, SlotLearner
from .arrays import at, draw, draw_all, many
from .learner import Learner, PointLearner
from .spec import Spec
from .types import FixedArray, FloatArray, Information, IntArray, Log, Record, Rows, S, Slot, Steps

__all__ = [
    "ArmLearner",
    "FixedArray",
    "FloatArray",
    "Information",
    "IntArray",
    "Learner",
    "Log",
    "PointLearner",
    "PooledLearner",
    "ProvisionalLearner",
    "Record",
    "Rows",
    "S",
    "Slot",
    "SlotLearner",
    "Spec",
    "Steps",
    "at",
    "draw",
    "draw_all",
    "many",
]
