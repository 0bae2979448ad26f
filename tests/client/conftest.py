"""Clients of a service in this process, and of answers that a test makes up."""

import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from service.client import Bandits, ReportRules, Session, attempts
from service.testing import LocalBandits
from tests.support.waiting import SECONDS

CLICKS: dict[str, Any] = {
    "learner": {"kind": "centred_tsallis", "arms": ["shoes", "hat", "scarf"]},
    "loss_range": [1, 0],
    "seed": 7,
}
AT_ONCE = ReportRules(interval=0.0, close_timeout=5.0)
ACTION = {"slot": 1, "arm": 0, "probability": 0.5, "label": "shoes"}
SETTLED = {"applied": 1, "duplicates": 0, "slot": 1, "outstanding": 0}

VIEW = {"session_id": "s", "learner": {}, "version": "v", "slot": 0, "feedbacks": 0, "outstanding": 0}
VIEW |= {"expired": 0, "removed": 0}


@pytest.fixture
def bandits() -> Iterator[LocalBandits]:
    with LocalBandits(reports=AT_ONCE) as bandits:
        yield bandits


def problem(status: int, code: str, headers: dict[str, str] | None = None, **fields: Any) -> httpx.Response:
    """A refusal as the service makes it."""
    return httpx.Response(status, json={"status": status, "code": code, "detail": code} | fields, headers=headers)


Step = httpx.Response | BaseException | Callable[[httpx.Request], httpx.Response]


class Script(httpx.BaseTransport, httpx.AsyncBaseTransport):
    """Answers requests one after the other as told; the last step goes on for ever."""

    def __init__(self, *steps: Step) -> None:
        self.steps = list(steps)
        self.requests: list[httpx.Request] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        request.read()
        self.requests.append(request)
        step = self.steps.pop(0) if len(self.steps) > 1 else self.steps[0]
        if isinstance(step, BaseException):
            raise step
        if callable(step):
            return step(request)
        return httpx.Response(step.status_code, headers=step.headers, content=step.content)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        return self.handle_request(request)

    @property
    def keys(self) -> list[str]:
        """The Idempotency-Keys of the requests so far."""
        return [request.headers["Idempotency-Key"] for request in self.requests]


def scripted(*steps: Step, **options: Any) -> tuple[Bandits, Script]:
    """A client whose requests are answered by the script."""
    script = Script(*steps)
    return Bandits("http://service", transport=script, **{"reports": AT_ONCE} | options), script


ACTED = httpx.Response(200, json=ACTION)
AWAY = httpx.ConnectError("refused")
BUSY = problem(503, "overloaded")
LATER = ReportRules(interval=1000.0, max_batch=3, close_timeout=5.0)


@pytest.fixture
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no attempt wait long for the next one."""
    monkeypatch.setattr(attempts, "FIRST_PAUSE", 0.001)


@pytest.fixture
def dropped() -> list[Any]:
    """What ``on_error`` was called with."""
    return []


def events(request: httpx.Request) -> list[dict[str, Any]]:
    return list(json.loads(request.content)["events"])


def labels(request: httpx.Request) -> list[str]:
    return [event["label"] for event in events(request)]


def settled(request: httpx.Request) -> httpx.Response:
    return httpx.Response(200, json=SETTLED | {"applied": len(events(request))})


class Gate:
    """A service that answers when it is opened."""

    def __init__(self) -> None:
        self.entered, self.opened = threading.Semaphore(0), threading.Event()

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.entered.release()
        assert self.opened.wait(SECONDS)
        return settled(request)


@pytest.fixture
def shop(bandits: LocalBandits) -> Session:
    return bandits.sessions.create("shop", **CLICKS)
