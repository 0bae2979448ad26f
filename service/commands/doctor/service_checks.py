"""A running service, asked over HTTP: whether it lives, can commit, and is of this version; its clock and keys."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from email.utils import parsedate_to_datetime

import httpx

from ... import __version__
from ..service_flags import KEY_VARIABLE
from .finding import Finding, error, ok, warning

SECONDS = 5.0
CLOCK_SECONDS = 2.0
"""``Date`` has whole seconds."""
_BUILD = re.compile(r'^bandit_build_info\{.*version="([^"]*)"', re.MULTILINE)


def check(url: str) -> Iterator[Finding]:
    """Ask the service at an address."""
    if not re.match("https?://", url):
        yield error("service", f"{url} has no http:// or https://", f"say --url http://{url}")
        return
    key = os.environ.get(KEY_VARIABLE, "")
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    try:
        with httpx.Client(base_url=url, headers=headers, timeout=SECONDS) as http:
            live = http.get("/livez")
            yield _live(url, live)
            if live.is_success:
                yield from (_ready(http.get("/readyz")), _clock(live), _key(http), _version(http.get("/metrics")))
    except (httpx.HTTPError, httpx.InvalidURL) as away:
        text = f"{url} does not answer ({type(away).__name__})"
        yield error("service", text, "start it with `delayed-bandits serve`, or correct --url")


def _live(url: str, answer: httpx.Response) -> Finding:
    if answer.is_success:
        return ok("service", f"{url} answers")
    text = f"{url}/livez answers {answer.status_code}"
    return error("service", text, "see that the address is that of this service, and not of another")


def _ready(answer: httpx.Response) -> Finding:
    if answer.is_success:
        return ok("readiness", "the service can commit")
    reason = answer.json().get("detail", "") if "json" in answer.headers.get("Content-Type", "") else ""
    text = f"{answer.status_code}: {reason or 'no reason given'}"
    return error("readiness", text, "mend the store of this service; its log says more")


def _clock(answer: httpx.Response) -> Finding:
    told = answer.headers.get("Date")
    if told is None:
        return ok("service's clock", "not told")
    ahead = parsedate_to_datetime(told).timestamp() - time.time()
    if abs(ahead) > CLOCK_SECONDS:
        text = f"it differs from this machine's by {ahead:+.0f} s"
        return warning("service's clock", text, "run a time service (NTP) on both machines")
    return ok("service's clock", "it agrees with this machine's")


def _key(http: httpx.Client) -> Finding:
    answer = http.get("/v1/sessions", params={"limit": 1})
    if answer.is_success:
        return ok("API key", "accepted" if KEY_VARIABLE in os.environ else "none needed")
    if answer.status_code == httpx.codes.UNAUTHORIZED:
        return warning("API key", "missing or wrong", f"set {KEY_VARIABLE}")
    text = f"a list of sessions answers {answer.status_code}"
    return warning("API key", text, "see docs/errors.md")


def _version(answer: httpx.Response) -> Finding:
    found = _BUILD.search(answer.text) if answer.is_success else None
    if found is None:
        return ok("version", f"this program is {__version__}; the service does not tell its own with this key")
    if found[1] != __version__:
        text = f"the service is {found[1]}, this program {__version__}"
        return warning("version", text, "install the same here and there")
    return ok("version", f"{__version__}, as this program")
