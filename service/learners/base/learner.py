"""What learners over arms and learners over points have in common, and what those over points can do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Generic

from .types import FloatArray, Information, S, Slot


class Learner(ABC, Generic[S]):
    """What learners over arms and over points share."""

    information: ClassVar[Information]
    state_type: ClassVar[type]
    """The NamedTuple class of the state.

    Its annotations (int, float, bool, FloatArray, IntArray, Rows) are the layout in which states are stored. A
    field with a default is not stored: it is of use only until the arm of the open slot is drawn.

    A state may have a ``log`` (``Log``, or None where it is not known) behind its other fields, which may be stored
    in place of its vectors: ``replayed(log)`` must be the state to the bit, on any processor. So replaying may add,
    multiply, divide and compare, but takes no power or logarithm.
    """
    second_stream: ClassVar[bool] = False
    """Whether a slot's second uniform, v_t, is needed."""

    @abstractmethod
    def start(self) -> S:
        """Return the state before the first slot."""

    @abstractmethod
    def open(self, state: S, slot: Slot) -> S:
        """Close slot t-1, open slot ``slot.t`` and return the new state.

        Parameters
        ----------
        state : after all events of slot t-1
        slot : what is known when it opens; its ``t`` is one more than that of the slot before
        """

    def rates(self, state: S) -> dict[str, Any]:
        """Return the rates in use.

        Returns
        -------
        Floats by their API names, such as ``"learning_rate"``, and under ``"rates"`` the ``RateMode``.
        """
        raise NotImplementedError


class PointLearner(Learner[S]):
    """A learner over points of a convex set."""

    dim: int

    def open(self, state: S, slot: Slot) -> S:  # noqa: ARG002 - overridden by learners that count slots
        return state

    @abstractmethod
    def x(self, state: S) -> FloatArray:
        """Return the point to play, shape (..., dim)."""

    def query_points(self, state: S) -> FloatArray | None:  # noqa: ARG002 - overridden by learners that query
        """Return the query points x + perturbation e_k, shape (..., dim, dim); None where only x is played."""
        return None

    @abstractmethod
    def settle(self, state: S, values: FloatArray, outstanding: int) -> S:
        """Learn from one bundle or one gradient and return the new state.

        Parameters
        ----------
        state : before the feedback
        values : the losses at x and its query points, shape (..., dim+1), or the gradient, shape (..., dim)
        outstanding : decisions still without feedback, this one not among them
        """
