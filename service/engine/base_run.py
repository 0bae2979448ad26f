"""What runs over arms and runs over points share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from operator import attrgetter
from typing import Any, Self

from ..learners.base import IntArray, Learner, Rows, Slot
from .act_times import ActTimes
from .draws import Draws
from .ledger import Ledger
from .params import Params
from .surplus import SurplusChecker


@dataclass(slots=True)
class BaseRun(ABC):
    """A session's learner at one moment. ``copy`` a run before changing it where others may read it.

    Subclasses call a method they override as ``ArmRun.act(self)``: ``super()`` does not work in a dataclass
    with slots before Python 3.14.
    """

    params: Params
    learner: Learner[Any]
    draws: Draws
    second_draws: Draws | None
    """The v_t, for learners with ``second_stream``."""
    ledger: Ledger
    state: Any
    """The learner's state."""
    act_times: ActTimes | None
    """When outstanding decisions were taken, in sessions with expiry."""
    stored_rows: Rows
    """The rows of the state as the store holds them; rows that differ are to be written."""

    def copy(self) -> Self:
        """Copy the run, so that the copy may be stepped alone."""
        copied = type(self)(*_values_of(type(self))(self))
        copied.ledger = self.ledger.copy()
        if self.act_times is not None:
            copied.act_times = self.act_times.copy()
        return copied

    def with_seed(self, seed: int) -> Self:
        """Return the run of another session that was created with equal fields; it shares all but the draws.

        Parameters
        ----------
        seed : of the other session, in [0, 2**128)
        """
        copied = type(self)(*_values_of(type(self))(self))
        copied.params, copied.draws = self.params._replace(seed=seed), Draws(seed)
        copied.second_draws = None if self.second_draws is None else Draws(seed, stream=1)
        return copied

    def moved(self, ledger: Ledger, state: Any) -> Self:
        """Return the run of the same session and arms at another moment; it shares learner and draws.

        What a session keeps beside its state (open slots, times of acts, rows) is empty: it is still to be read.

        Parameters
        ----------
        ledger, state : the counts and the learner's state at that moment, which are not copied
        """
        copied = type(self)(*_values_of(type(self))(self))  # In a third of the time that `replace` takes.
        copied.ledger, copied.state, copied.stored_rows = ledger, state, ()
        copied.act_times = ActTimes.of_session(self.params.expiry)
        return copied

    def on_written(self, rows: Rows) -> None:
        """Note that the store holds all changes of the run, with ``rows`` as the state's rows."""
        self.stored_rows = rows
        if self.act_times is not None:
            self.act_times = self.act_times.written()

    def advance(self, time: float) -> None:
        """Set the time, in Unix seconds, unless it would go back.

        Decisions due by then must be expired before anything else is done.
        """
        self.ledger.time = max(self.ledger.time, time)

    @property
    def due(self) -> bool:
        """Whether the time of some outstanding decisions is over."""
        due_at = None if self.act_times is None else self.act_times.due_at()
        return due_at is not None and due_at <= self.ledger.time

    @abstractmethod
    def settle(self, event: Any) -> None:
        """Learn from one event that is not surplus: an ``ArmFeedback``, or over points a ``PointFeedback``."""

    @abstractmethod
    def void(self, event: Any) -> None:
        """Take back the decision that an event, not surplus, answers: nothing is learned of it."""

    @abstractmethod
    def surplus_checker(self) -> SurplusChecker:
        """Return a function that tells of one event after another whether a decision is left for it.

        An event for which none is left is surplus. Counts and open slots of the run stay as they are.
        """

    def surplus(self, events: Sequence[Any]) -> list[int]:
        """Return the indexes of the events that no outstanding decision can have caused, judged in their order."""
        has_decision = self.surplus_checker()
        return [index for index, event in enumerate(events) if not has_decision(event)]

    def is_removed(self, event: Any) -> bool:  # noqa: ARG002 - arms can be removed, points cannot
        """Return whether an event is of a removed arm; such an event changes nothing."""
        return False

    def delay(self, event: Any) -> float | None:
        """Return the seconds since the act that an event, not surplus, will settle; None without expiry."""
        acted_at = None if self.act_times is None else self._acted_at(self.act_times, event)
        return None if acted_at is None else max(0.0, self.ledger.time - acted_at)

    @abstractmethod
    def _acted_at(self, times: ActTimes, event: Any) -> float | None:
        """Return the Unix time of the act that an event will settle."""

    def _open_slot(self, draws: Draws | None, eligible: IntArray | None = None) -> Slot:
        """Open the next slot in the ledger; without ``draws`` its u is 0."""
        outstanding = self.ledger.outstanding
        t = self.ledger.open()
        v = self.second_draws.uniform(t) if self.second_draws is not None else 0.0
        u = 0.0 if draws is None else draws.uniform(t)
        expiry = self.params.expiry
        return Slot(t, outstanding, u, v, eligible, self.params.floor, expiry is not None and expiry.provisional)


@lru_cache(maxsize=16)
def _values_of(kind: type[BaseRun]) -> Callable[[BaseRun], tuple[Any, ...]]:
    """Return a function that returns the values of all fields of a run of this kind, in their order."""
    return attrgetter(*(field.name for field in fields(kind)))
