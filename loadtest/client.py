"""Calls to the service: one at a time, timed, and repeated while the service is unavailable."""

from __future__ import annotations

import errno
import json
import re
import time
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx

from loadtest.errors import ClientLimitError, ServiceError

RETRIED = frozenset({429, 502, 503, 504})
"""Statuses after which the same request may succeed later."""
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 2.0
"""Seconds between attempts; doubled each time, or what ``Retry-After`` asks for within the longest."""
CLIENT_ERRNOS = frozenset({errno.EADDRNOTAVAIL, errno.EMFILE, errno.ENFILE, errno.ENOBUFS})
"""Errors of a client machine without free ports, files or buffers."""
NOT_CONNECTED = frozenset({httpx.ConnectError.__name__, httpx.ConnectTimeout.__name__})
"""Nobody listens at the address."""
CLIENT_FAULTS = (httpx.PoolTimeout, httpx.UnsupportedProtocol, httpx.LocalProtocolError)


@dataclass
class CallLog:
    """What calls took, by kind of call, and how often something had to be tried again."""

    seconds: dict[str, array[float]] = field(default_factory=lambda: defaultdict(lambda: array("d")))
    retries: Counter[str] = field(default_factory=Counter)
    """Reason to number of attempts that failed so."""
    client_errors: int = 0

    @contextmanager
    def timed(self, kind: str) -> Iterator[None]:
        """Time a call from its first attempt to its answer."""
        start = time.perf_counter()
        yield
        self.seconds[kind].append(time.perf_counter() - start)

    @property
    def calls(self) -> int:
        """Calls that were answered."""
        return sum(map(len, self.seconds.values()))


class Client:
    """JSON calls over one connection.

    Parameters
    ----------
    http : has the service's address as its base URL
    retry_seconds : how long one call may be tried, from its first attempt
    sleep : waits between attempts
    """

    def __init__(
        self, http: httpx.Client, retry_seconds: float = 60.0, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self.log, self.retry_seconds, self.api_key = CallLog(), retry_seconds, ""
        self._http, self._sleep = http, sleep

    @property
    def url(self) -> str:
        """The service's address."""
        return str(self._http.base_url)

    def call(self, kind: str, method: str, path: str, body: Any = None, key: str | None = None) -> Any:
        """Make a call until it is answered; every attempt sends the same bytes and Idempotency-Key.

        Raises
        ------
        ServiceError
            where the service refuses the call, or can't be reached within the retry budget.
        ClientLimitError
            where the client itself failed.
        """
        headers = {} if key is None else {"Idempotency-Key": key}
        content = None if body is None else json.dumps(body, allow_nan=False)
        headers |= {} if content is None else {"Content-Type": "application/json"}
        request = self._http.build_request(method, path, headers=headers, content=content)
        with self.log.timed(kind):
            answer = self._answer(request)
        if not answer.is_success:
            raise ServiceError(f"{method} {path}: {_problem(answer)}")
        try:
            return answer.json() if answer.content else None
        except ValueError as error:
            raise ServiceError(f"{method} {path}: the answer is not JSON") from error

    def check_reachable(self, seconds: float = 1.5) -> None:
        """Ask for ``/livez`` once; any answer will do, and so does a connection on which no answer comes yet.

        Raises
        ------
        ServiceError
            where no connection can be made within ``seconds``.
        ClientLimitError
            where the client itself failed.
        """
        answer, reason = self._attempt(self._http.build_request("GET", "/livez", timeout=seconds))
        if answer is None and reason in NOT_CONNECTED:
            raise ServiceError(f"{self._http.base_url} does not answer ({reason})")

    def _answer(self, request: httpx.Request) -> httpx.Response:
        deadline = time.monotonic() + self.retry_seconds
        pause = FIRST_PAUSE
        while True:
            answer, reason = self._attempt(request)
            if answer is not None and answer.status_code not in RETRIED:
                return answer
            asked = "" if answer is None else answer.headers.get("Retry-After", "")
            wait = max(pause, min(float(asked), LONGEST_PAUSE) if asked.isdecimal() else 0.0)
            self.log.retries[reason] += 1
            if time.monotonic() + wait > deadline:
                raise ServiceError(f"{request.url}: {reason}; given up after {self.retry_seconds:g} s")
            self._sleep(wait)
            pause = min(2 * pause, LONGEST_PAUSE)

    def _attempt(self, request: httpx.Request) -> tuple[httpx.Response | None, str]:
        try:
            answer = self._http.send(request)
        except httpx.TransportError as error:
            if _is_client_fault(error):
                self.log.client_errors += 1
                raise ClientLimitError(f"the load client failed, not the service: {error!r}") from error
            return None, type(error).__name__
        return answer, refusal(answer) if answer.status_code in RETRIED else ""


def refusal(answer: httpx.Response) -> str:
    """Return status and code of an answer, which was read, after which a call is sent again."""
    code = re.search(r'"code": ?"(\w+)"', answer.text)
    return f"status {answer.status_code}" + (f" {code[1]}" if code else "")


def _is_client_fault(error: BaseException | None) -> bool:
    if isinstance(error, CLIENT_FAULTS):
        return True
    while error is not None:
        if isinstance(error, OSError) and error.errno in CLIENT_ERRNOS:
            return True
        error = error.__cause__ or error.__context__
    return False


def _problem(answer: httpx.Response) -> str:
    try:
        problem = answer.json()
        text = ": ".join(str(problem[name]) for name in ("code", "detail") if problem.get(name))
    except (ValueError, AttributeError):
        text = answer.text[:200]
    return f"status {answer.status_code}: {text}"
