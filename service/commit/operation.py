"""What an operation is: one request, applied to a session's draft as part of a batch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from ..cooperative import Body
from ..models.events import Idempotency
from .draft import Draft


class Applied(NamedTuple):
    """What one operation did to a draft."""

    body: Body
    """Of the answer."""
    event_ids: Sequence[bytes] = ()
    """Digests of the event ids that count from now on."""
    changed: bool = True
    """Whether the run changed, or an event id counts from now on."""
    shows_version: bool = False
    """Whether the body has ``VERSION`` in it."""
    outcomes: Mapping[str, int] = {}
    """Number of events by what became of them, as metrics name it."""
    delays: Sequence[float] = ()
    """Seconds from act to event, where known."""


@dataclass(slots=True, kw_only=True)
class Operation(ABC):
    """One request. It is applied again, to another draft, whenever the commit of its batch fails.

    So an operation never changes itself: what ``check`` finds out is handed to ``apply``.
    """

    extends_deadline: ClassVar[bool] = True
    """Whether it extends the session's idle deadline."""

    idempotency: Idempotency | None = None
    """The request's idempotency key."""
    is_gone: Callable[[], bool] | None = None
    """Whether the client has left: the operation is not applied then. None: it is applied in any case."""

    @property
    def weight(self) -> int:
        """Acts or events in the request: what it adds to the size of its batch."""
        return 1

    @property
    def segments(self) -> Iterable[str]:
        """Names of the segments that it touches, if the session has segments; those it plays can be begun by it."""
        return ()

    @property
    def plays(self) -> Iterable[str]:
        """Names of the segments that it plays, each once for each act."""
        return ()

    async def check(self, draft: Draft) -> Any:  # noqa: ARG002 - most requests fit every session
        """Find out whether the request fits the session; a stored answer is looked up only after that.

        Returns
        -------
        What ``apply`` needs of it.

        Raises
        ------
        ServiceError
            where the request does not fit.
        """
        return None

    @abstractmethod
    async def apply(self, draft: Draft, checked: Any) -> Applied:
        """Apply the whole request to the draft's run.

        Parameters
        ----------
        draft : a copy of the session, with what earlier requests of the batch have changed
        checked : what ``check`` returned for this draft

        Raises
        ------
        ServiceError
            where the request is refused; the run is as it was before.
        """
