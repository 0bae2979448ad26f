"""Who calls under load: the load test's own impatient client, or the client that the project offers to users."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from ssl import PROTOCOL_TLS_CLIENT, SSLContext
from typing import Any, Protocol

import httpx

from loadtest.chaos.ledger import Action, Event
from loadtest.client import RETRIED, CallLog, Client
from loadtest.errors import ServiceError
from service.client import Bandits, BanditsError, ReportError

NO_AUTHORITIES = SSLContext(PROTOCOL_TLS_CLIENT)
"""Spares each client 20 ms of reading certificates, in which the calls that are timed stand still."""
MANY = 1_000_000
"""Attempts after the first: the time alone bounds them."""


class Caller(Protocol):
    """Acts and reports, and sends everything again until it is acknowledged; ServiceError where it never is."""

    def acts(self, session_id: str, body: Mapping[str, Any], key: str) -> Sequence[Action]:
        """Open slots."""

    def feedbacks(self, session_id: str, events: Sequence[Event], *, later: bool) -> Mapping[str, int]:
        """Settle events; ``later`` where a batch in the background may do it. What the settlement counts."""


class PlainCaller:
    """Sends requests as they are."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def acts(self, session_id: str, body: Mapping[str, Any], key: str) -> Sequence[Action]:
        """Open slots."""
        answer = self._client.call("acts", "POST", f"/v1/sessions/{session_id}/acts", body, key)
        return answer["actions"]  # type: ignore[no-any-return]

    def feedbacks(self, session_id: str, events: Sequence[Event], *, later: bool) -> Mapping[str, int]:  # noqa: ARG002 - never later
        """Settle events at once."""
        body = {"events": events}
        return self._client.call(  # type: ignore[no-any-return]
            "feedbacks", "POST", f"/v1/sessions/{session_id}/feedbacks", body
        )


class UsersCaller:
    """Calls as a program does that uses ``delayed_bandits``: by calls and by reports in the background.

    Parameters
    ----------
    client : its calls are counted and timed in this client's log, and tried for as long
    """

    def __init__(self, client: Client, bandits: Bandits, dropped: list[ReportError]) -> None:
        self._client, self._bandits, self._dropped = client, bandits, dropped

    def acts(self, session_id: str, body: Mapping[str, Any], key: str) -> Sequence[Action]:
        """Open slots."""
        session, options = self._bandits.session(session_id), {**body}
        with self._client.log.timed("acts"), _errors():
            found = session.acts(options.pop("count"), idempotency_key=key, **options)
        return [{"slot": each.slot, "arm": each.arm, "probability": each.probability} for each in found]

    def feedbacks(self, session_id: str, events: Sequence[Event], *, later: bool) -> Mapping[str, int]:
        """Settle events at once, or by reports that this waits for."""
        with self._client.log.timed("feedbacks"), _errors():
            if later:
                return self._reported(session_id, events)
            return vars(self._bandits.session(session_id).feedbacks(events))

    def _reported(self, session_id: str, events: Sequence[Event]) -> Mapping[str, int]:
        session, before = self._bandits.session(session_id), vars(self._bandits.reports)
        for event in events:
            fields = {**event}
            arm = fields.pop("arm")
            word = next(word for word in ("loss", "reward") if word in fields)
            if fields[word] is None:
                del fields[word]
                session.void(arm, **fields)
            else:
                session.report(arm, **fields)
        if not self._bandits.flush(self._client.retry_seconds) or self._dropped:
            reasons = [str(each.error) for each in self._dropped] or ["not acknowledged in time"]
            raise ServiceError(f"reports to {session_id}: {reasons[0]}")
        return {name: count - before[name] for name, count in vars(self._bandits.reports).items()}


@contextmanager
def users_caller(client: Client) -> Iterator[Caller]:
    """Open a client of the project beside one of the load test, to the same service."""
    dropped: list[ReportError] = []
    with Bandits(
        client.url,
        timeout=client.retry_seconds,
        max_retries=MANY,
        on_error=dropped.append,
        verify=NO_AUTHORITIES,
        transport=_Counting(client.log),
    ) as bandits:
        yield UsersCaller(client, bandits, dropped)


class _Counting(httpx.HTTPTransport):
    """Counts the attempts after which the client tries again."""

    def __init__(self, log: CallLog) -> None:
        super().__init__(verify=NO_AUTHORITIES)
        self._log = log

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        try:
            answer = super().handle_request(request)
        except httpx.TransportError as error:
            self._log.retries[type(error).__name__] += 1
            raise
        if answer.status_code in RETRIED:
            self._log.retries[f"status {answer.status_code}"] += 1
        return answer


@contextmanager
def _errors() -> Iterator[None]:
    try:
        yield
    except BanditsError as error:
        raise ServiceError(str(error)) from error
