"""Events by token: what they say, how many an address may post, and clicks settled each in its token's session."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any

from .. import errors
from ..commit.batch import Answer, Draft, Operation
from ..engine.arm_run import ArmRun
from ..engine.ledger import ArmFeedback
from ..engine.run import FeatureRun
from ..learners.features import visit_of
from ..models.events import Click, OneArmEvent
from ..models.specification import token_seconds
from ..serialization.records import Learned
from ..tokens import TokenKeys, read

# -- How many tokens an address may post.

MAX_ADDRESSES = 10_000
"""Addresses that are remembered; with one more all begin anew."""
_ROUNDING = 1e-6
"""Seconds by which sums of times may be wrong."""


class ClickRates:
    """Bounds the tokens that each client address posts to this worker: a bucket of a second for each.

    A request of more tokens than that takes a full bucket, and those after it wait until all are made good.

    Parameters
    ----------
    per_second : tokens; 0 for no bound
    clock : seconds
    """

    def __init__(self, per_second: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._clock = per_second, clock
        self._full_at: dict[str, float] = {}
        """When the bucket of an address is full again."""

    def take(self, address: str, tokens: int) -> None:
        """Take tokens out of the bucket of an address.

        Raises
        ------
        errors.TooManyClicksError
            if they are not there.
        """
        if not self._rate:
            return
        now = self._clock()
        full_at = max(self._full_at.get(address, now), now)
        wait = full_at - now + min(tokens, self._rate) / self._rate - 1
        if wait > _ROUNDING:
            error = errors.TooManyClicksError(f"An address may post {self._rate} tokens per second")
            error.retry_after = math.ceil(wait)
            raise error
        if len(self._full_at) >= MAX_ADDRESSES:
            self._full_at.clear()
        self._full_at[address] = full_at + tokens / self._rate


# -- An event by token, as the run of its session takes it.


def by_token(
    event: OneArmEvent, draft: Draft, parse: Callable[[Any, Any], ArmFeedback], *, by_browser: bool
) -> ArmFeedback:
    """Read an event that brings a token; what it says beside must be the same.

    Raises
    ------
    errors.InvalidRequestError
        if it does not fit; ``InvalidTokenError`` if the token is none of this session.
    errors.ExpiredTokenError
        if a browser reports it, and its window has ended, or it is of an earlier session with this id.
    """
    run, stored, now = draft.run, draft.stored, draft.run.ledger.time
    token = None if draft.tokens is None else draft.tokens.opened(event.token or "")
    if token is None and by_browser:
        raise errors.ExpiredTokenError
    if token is None or not isinstance(run, ArmRun):
        raise errors.InvalidTokenError.of("token", "is not one of this session")
    gone = (run.arms.removed or {}).get(event.label or "")
    label = event.label is None or (run.arms.labels or {}).get(event.label, gone and gone.arm) == token.arm
    segment = (event.segment or "") == token.segment
    same = {"arm": event.arm == token.arm, "label": label, "slot": event.slot == token.slot, "segment": segment}
    same["group"] = (event.group == "control") == bool(token.group)
    if wrong := [field for field, is_same in same.items() if not is_same]:
        raise errors.InvalidRequestError.of(wrong[0], "is another one in the token")
    found = parse(event if event.label is None else event.model_copy(update={"label": None}), run)
    is_over = token.at + token_seconds(stored.specification) <= now
    if by_browser and is_over and not _may_improve(draft, event.digest or b""):
        raise errors.ExpiredTokenError
    if isinstance(run, FeatureRun) and not found.is_control:
        if (visit := visit_of(token.tail, run.encoder.columns)) is None:
            raise errors.InvalidTokenError.of("token", "is not one of this session")
        found = found._replace(visit=visit)
    return found._replace(is_late=is_over or token.at <= stored.tokens_from, signed_slot=token.slot)


def _may_improve(draft: Draft, event_id: bytes) -> bool:
    """Return whether an event id was applied, and a better event under it may come still."""
    updates, now = draft.run.params.updates, draft.run.ledger.time
    value = draft.value_of(event_id) if updates else None
    return bool(value) and now - Learned.known(event_id, value or b"").at <= updates


# -- Clicks of one request, each in the session of its token.


Submit = Callable[[str, Operation], Awaitable[Answer]]
"""Applies an operation to a session."""


async def settle_clicks(
    submit: Submit, settle: Callable[..., Operation], keys: TokenKeys, clicks: Sequence[Click]
) -> None:
    """Settle clicks, each in the session of its token: all of them, or none.

    If there are several sessions, each is asked before any is changed. What happens to one in between, that one
    alone refuses.

    Parameters
    ----------
    submit : applies an operation to a session
    settle : makes the operation that settles events, or with ``is_trial`` only judges them
    keys : that have signed genuine tokens

    Raises
    ------
    errors.InvalidRequestError, errors.BadTokenError, errors.ExpiredTokenError
        with the indexes of the clicks that are refused, in this order.
    ServiceError
        what ``submit`` raises otherwise.
    """
    await keys.ready()
    forged, places = list[int](), dict[str, list[int]]()
    for index, click in enumerate(clicks):
        if (token := read(click.token)) is not None and keys.is_genuine(token):
            places.setdefault(token.session_id, []).append(index)
        else:
            forged.append(index)
    for is_trial in [True] if forged else [True, False] if len(places) > 1 else [False]:
        events = {session_id: [clicks[at].event for at in indexes] for session_id, indexes in places.items()}
        calls = [submit(session_id, settle(each, is_trial=is_trial)) for session_id, each in events.items()]
        _refuse(list(places.values()), await asyncio.gather(*calls, return_exceptions=True), forged)


def _refuse(places: Sequence[Sequence[int]], found: Sequence[Any], forged: Sequence[int]) -> None:
    """Raise what was found to be wrong with clicks, if anything was.

    Parameters
    ----------
    places : indexes of the clicks of each session
    found : what became of each session's: an answer, or the error
    forged : indexes of those with a forged token
    """
    wrong, expired = list[errors.FieldError](), list[int]()
    for indexes, each in zip(places, found, strict=True):
        if isinstance(each, errors.ExpiredTokenError):
            expired += [indexes[at] for at in each.indexes]
        elif isinstance(each, errors.UnknownSessionError):
            expired += indexes
        elif isinstance(each, errors.InvalidRequestError):
            wrong += [replace(error, index=indexes[error.index or 0]) for error in each.errors]
        elif isinstance(each, BaseException):
            raise each
    if wrong:
        raise errors.InvalidRequestError.of_all(sorted(wrong, key=lambda error: error.index or 0))
    if forged:
        raise errors.BadTokenError(indexes=forged)
    if expired:
        raise errors.ExpiredTokenError(indexes=sorted(expired))
