"""What an operation promises: one request, applied to a session's run as part of a batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from ..cooperative.answer_body import Body
from ..cooperative.fair_yield import FairYield
from ..engine.run import Run
from ..models.idempotency import Idempotency
from ..store.base import DIGEST_BYTES

VERSION = "\0"
"""Stands in an answer for the version its commit makes; no label or other text of an answer has this character."""


class Answer(NamedTuple):
    """The body of a success; ``replayed`` where it was stored with an idempotency key before."""

    body: Body
    replayed: bool = False


class Applied(NamedTuple):
    """What one operation did to a run."""

    body: Body
    recorded: Sequence[bytes] = ()
    """Digests of the event ids that now count."""
    changed: bool = True
    shows_version: bool = False
    """Whether the body has ``VERSION`` in it."""
    counts: Mapping[str, int] = {}
    """Events by outcome, as metrics name it."""
    delays: Sequence[float] = ()
    """Seconds from act to event, where known."""


class Operation(Protocol):
    """One request, applied to a run as often as its batch is folded."""

    @property
    def weight(self) -> int:
        """Acts or events in it."""

    @property
    def idempotency(self) -> Idempotency | None:
        """The request's idempotency key."""

    @property
    def digests(self) -> Sequence[bytes]:
        """Digests of its event ids; known once it was checked."""

    async def check(self, run: Run, pause: FairYield) -> None:
        """Raise ``InvalidRequestError`` where the request does not fit the session."""

    @property
    def is_use(self) -> bool:
        """Whether it puts off the session's idle deadline."""

    async def apply(self, run: Run, counted: Callable[[bytes], bool], pause: FairYield) -> Applied:
        """Apply all of it, or raise a ``ServiceError`` having applied nothing.

        ``counted`` tells whether an event id, by its digest, counts already.
        """


def unpack_answer(stored: bytes) -> tuple[bytes, bytes]:
    """The digest of the body an idempotency key came with, and the answer it got."""
    return stored[:DIGEST_BYTES], stored[DIGEST_BYTES:]
