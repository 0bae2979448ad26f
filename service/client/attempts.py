"""The attempts of one call: where they go, how long each may take, whether there is another, and when."""

import os
import random
import re
import ssl
import sys
import time
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

import httpx

from .calls import ApiError, BanditsError, Call, Json, NoAnswerError, answer_of

URL_VARIABLE, KEY_VARIABLE = "DELAYED_BANDITS_URL", "DELAYED_BANDITS_API_KEY"
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 5.0
"""Seconds between attempts: a random part of these, doubled each time."""
REPEATED = frozenset({408, 429, 500, 502, 503, 504})
"""Statuses after which the same request may succeed, here or at another worker."""
SHARE = 0.75
"""Of the time that is left, what an attempt may take that is not the last: slow answers are used, and a server that
hangs leaves time for another."""
LONGEST = 1e8
"""Seconds that anything may take: what is far longer is too long for a clock."""
LEAST = 0.001
"""Seconds that a step of an attempt gets where none are left."""
POOL: dict[str, Any] = {"max_connections": None, "max_keepalive_connections": 100, "keepalive_expiry": 5.0}
"""Which connections are kept, and for how many seconds."""


@dataclass(frozen=True)
class Target:
    """Where calls go, and how long they may take.

    Attributes
    ----------
    timeout : seconds for a call with all its attempts
    max_retries : attempts after the first
    proxy : that calls go through
    """

    url: str
    headers: Mapping[str, str] = field(repr=False)
    timeout: float
    max_retries: int
    verify: Any = True
    proxy: httpx.Proxy | None = None

    def options(self, transport: Any) -> dict[str, Any]:
        """Return the options of httpx's clients; ``transport``, if any, stands in place of the network."""
        limits, proxy = httpx.Limits(**POOL), None if transport else self.proxy
        own = {"base_url": self.url, "headers": self.headers, "verify": self.verify, "limits": limits}
        return own | {"transport": transport, "proxy": proxy, "trust_env": False}


def target_of(
    url: str | None, api_key: str | None, timeout: float, max_retries: int, verify: Any, trust_env: bool = False
) -> Target:
    """Return the target that a user names, completed from the environment; an empty key sends none.

    Raises
    ------
    ValueError
        for a missing or wrong address, key, or number.
    """
    url = url or os.environ.get(URL_VARIABLE, "")
    if not re.fullmatch(r"https?://[^\s/?#]*[^\s/?#@](/[^\s?#]*)?", url):
        raise ValueError(f"url: give the service's address, such as http://localhost:8000, or set {URL_VARIABLE}")
    if not 0 < timeout <= LONGEST or max_retries < 0:
        raise ValueError(f"timeout must be positive, {LONGEST:g} at most, and max_retries must not be negative")
    key = os.environ.get(KEY_VARIABLE, "") if api_key is None else api_key
    if not re.fullmatch(r"[!-~]*", key):
        raise ValueError("api_key: printable ASCII without spaces")
    headers = {"User-Agent": "delayed-bandits", "Accept-Encoding": "gzip"}
    headers |= {"Authorization": f"Bearer {key}"} if key else {}
    proxy, where = "", urlsplit(url)
    secret, is_given, host = where.netloc.rpartition("@")
    if is_given:  # Texts of errors show the address.
        url, user = url.replace(where.netloc, host, 1), ":".join(map(unquote, secret.partition(":")[::2]))
        headers["Authorization"] = f"Basic {b64encode(user.encode()).decode()}"
    if trust_env and not any(map(proxy_bypass, (where.netloc, where.hostname or ""))):
        proxy = getproxies().get(where.scheme) or getproxies().get("all", "")
    try:
        named = httpx.Proxy(proxy if "://" in proxy else f"http://{proxy}") if proxy else None
        for each in [httpx.URL(url), *([named.url] if named else ())]:
            each.host.encode("idna")  # As connections will.
    except (httpx.InvalidURL, ValueError) as error:
        raise ValueError(f"url, or the proxy that the environment names: {error}") from None
    return Target(url, headers, timeout, max_retries, _tls() if verify is True else verify, named)


@cache
def _tls() -> ssl.SSLContext:
    """Return httpx's own, made once: that takes 40 ms."""
    return httpx.create_ssl_context()


class Seconds(float):
    """Seconds that are left, and the time of the monotonic clock at which none are."""

    deadline: float


class TimeLeft(dict[str, float]):
    """The seconds that the next step of an attempt may take: httpx asks for them before each step."""

    def __init__(self, deadline: float) -> None:
        super().__init__()
        self.deadline = deadline

    def get(self, _step: str, _default: Any = None) -> float:
        """Return the seconds left."""
        left = Seconds(max(LEAST, self.deadline - time.monotonic()))
        left.deadline = self.deadline
        return left

    def is_over(self) -> bool:
        """Return whether none are left."""
        return time.monotonic() >= self.deadline


class Attempts:
    """The attempts of one call: how long each may take, whether there is another, and when."""

    def __init__(self, call: Call, target: Target) -> None:
        self.call = call
        self._deadline = time.monotonic() + min(LONGEST, target.timeout if call.timeout is None else call.timeout)
        self._deadline += call.waits / SHARE  # Of which the first attempt gets a share.
        self._retries = target.max_retries
        self._made = 0

    def request(self, http: httpx.Client | httpx.AsyncClient) -> tuple[httpx.Request, TimeLeft]:
        """Build the next attempt: it gets most of the time that is left, the last one all of it.

        Returns
        -------
        The request, and the seconds left of its attempt.
        """
        call, now = self.call, time.monotonic()
        left = max(LEAST, self._deadline - now)
        time_left = TimeLeft(now + (left if self._made >= self._retries else left * SHARE))
        self._made += 1
        headers = {} if call.key is None else {"Idempotency-Key": call.key}
        if call.content is not None:
            headers["Content-Type"] = "application/json"
        if call.traced and "opentelemetry.trace" in sys.modules:  # The program has imported it if there is a span.
            span = sys.modules["opentelemetry.trace"].get_current_span().get_span_context()
            if span.is_valid:
                headers["traceparent"] = f"00-{span.trace_id:032x}-{span.span_id:016x}-{span.trace_flags:02x}"
        query, extensions = dict(call.query) or None, {"timeout": time_left}
        request = http.build_request(
            call.method, call.path, params=query, content=call.content, headers=headers, extensions=extensions
        )
        return request, time_left

    def answer(self, response: httpx.Response, content: bytes) -> Json:
        """Return the JSON of an answer that has arrived, or raise the error that it is, as ``answer_of`` does.

        None stands for no content, and where an earlier attempt has done what was asked (``absent_ok``).
        """
        if response.status_code == httpx.codes.NOT_FOUND and self.call.absent_ok and self._made > 1:
            return None
        return answer_of(str(response.url), response.status_code, response.headers, content)

    def pause(self, error: BanditsError) -> float:
        """Return the seconds until the next attempt; raise the error where there is none.

        Raises
        ------
        BanditsError
            the one given, where it would come again, or no attempt or too little time is left.
        """
        wait = max(getattr(error, "retry_after", 0.0), backoff(self._made - 1))
        is_passing = isinstance(error, NoAnswerError) or (isinstance(error, ApiError) and error.status in REPEATED)
        if self._made > self._retries or not is_passing or time.monotonic() + wait >= self._deadline:
            raise error
        return wait


def no_answer(request: httpx.Request, error: Exception) -> BanditsError:
    """Return the error to raise, without its cause: the text names that, and httpx's traceback would hide it."""
    text = f"{request.method} {request.url}: {type(error).__name__}: {error}".rstrip(": ")
    if isinstance(error, httpx.LocalProtocolError | httpx.UnsupportedProtocol):  # No attempt can send it.
        return BanditsError(text)
    answer = NoAnswerError(text)
    if isinstance(error, httpx.TimeoutException | TimeoutError):
        answer.advice = "nobody answers at this address in time: see whether the service is busy, or allow more"
    elif "[SSL" in text or not isinstance(error, httpx.ConnectError):
        answer.advice = "the connection broke: see the logs of the service and of proxies, and for https verify="
    return answer


def backoff(failures: int) -> float:
    """Return a random number of seconds to wait after so many failures in a row before this one."""
    longest = min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(failures, 20))
    return longest * random.uniform(0.5, 1.0)  # noqa: S311 - spreads clients, keeps no secret
