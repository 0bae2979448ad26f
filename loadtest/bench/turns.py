"""For how long the largest requests of every kind block the event loop: the longest turn while one is worked on."""

from __future__ import annotations

import asyncio
import gc
import json
import re
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from http import HTTPStatus
from itertools import pairwise
from typing import Any, NamedTuple

from fastapi import FastAPI
from starlette.types import Message

from loadtest.bench.measured import spread
from loadtest.errors import ServiceError
from service.app import create_app
from service.server.worker import limit_event_loop_waits
from service.settings import Settings
from service.store.memory import MemoryStore

Headers = Sequence[tuple[bytes, bytes]]
Answer = tuple[int, Sequence[bytes]]
"""Status, and the parts of the body."""
CHUNK = 65_536
"""Bytes of a body that arrive at a time."""
KEYED = ((b"idempotency-key", b"once"),)
ONE_ARM, ONE_LABEL = {"kind": "dexp3", "n_arms": 1}, {"kind": "dexp3", "arms": ["a"]}
MANY_ARMS = {"kind": "dexp3", "n_arms": 100_000}
SIMPLEX = {"kind": "dbgd", "feasible_set": {"kind": "simplex", "total": 1}}
LABELS = [f"label number {number}" for number in range(80_000)]
LABELLED, UNFIXED = ({"kind": kind, "arms": LABELS} for kind in ("fixed", "dexp3"))
NEW = None, "POST", "/v1/sessions"


class InProcessApp:
    """Calls an application with its store in memory directly: a client would use the event loop to read answers."""

    def __init__(self, app: FastAPI) -> None:
        self._app = app

    def call(self, method: str, path: str, body: Any = None, headers: Headers = ()) -> Coroutine[Any, Any, Answer]:
        """Return a coroutine that gives status and parts of the answer; the request's body is encoded before."""
        return self._answer(method, path, b"" if body is None else json.dumps(body).encode(), headers)

    async def _answer(self, method: str, path: str, content: bytes, headers: Headers) -> Answer:
        parts = iter([content[at : at + CHUNK] for at in range(0, len(content), CHUNK)] or [b""])
        left, status, answer = len(content), 0, []

        async def receive() -> Message:
            nonlocal left
            part = next(parts)
            left -= len(part)
            return {"type": "http.request", "body": part, "more_body": left > 0}

        async def send(message: Message) -> None:
            nonlocal status
            if "status" in message:
                status = message["status"]
            else:
                answer.append(message["body"])

        path, _, query = path.partition("?")
        scope: dict[str, Any] = {"type": "http", "http_version": "1.1", "method": method, "root_path": ""}
        described = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(content))]
        scope |= {"path": path, "query_string": query.encode(), "headers": [*described, *headers]}
        await self._app(scope, receive, send)
        return status, answer

    async def create(self, learner: Mapping[str, Any]) -> str:
        """Create a session and return its path."""
        status, answer = await self.call("POST", "/v1/sessions", {"learner": learner, "seed": 7})
        if status != HTTPStatus.CREATED:
            raise ServiceError(f"no session: {status}")
        return f"/v1/sessions/{json.loads(b''.join(answer))['session_id']}"


@asynccontextmanager
async def in_process_app() -> AsyncIterator[InProcessApp]:
    """Start an application as a worker does, and end it."""
    app = create_app(Settings(), MemoryStore())
    async with app.router.lifespan_context(app):
        yield InProcessApp(app)


class Large(NamedTuple):
    """A large request, as a service with the default limits takes it."""

    title: str
    learner: Mapping[str, Any] | None
    """Of the session that it is sent to; None where it goes to ``path`` as it is."""
    method: str
    path: str
    """Behind the session's."""
    body: Callable[[], Any] = lambda: None
    """Makes it."""
    headers: Headers = ()
    status: int = 200
    """Of its answer."""
    before: Sequence[tuple[str, Callable[[], Any]]] = ()
    """What is posted before: paths behind the session's, and what makes the bodies."""
    of_drawn: Callable[[Sequence[int]], Any] | None = None
    """Makes the body, given the arms that were drawn before."""
    sessions: int = 0
    """Created before."""

    async def prepare(self, service: InProcessApp) -> Coroutine[Any, Any, Answer]:
        """Do what comes before the request, and return its call."""
        path = "" if self.learner is None else await service.create(self.learner)
        drawn = list[int]()
        for posted, make in self.before:
            _, answer = await service.call("POST", f"{path}{posted}", make())
            drawn += map(int, re.findall(rb'"arm": ?(\d+)', b"".join(answer)) if self.of_drawn else ())
        for _ in range(self.sessions):
            await service.create({"kind": "dexp3", "n_arms": 3})
        body = self.body() if self.of_drawn is None else self.of_drawn(drawn)
        return service.call(self.method, f"{path}{self.path}", body, self.headers)


def _batch() -> dict[str, Any]:
    return {"events": [{"arm": 0, "loss": 0.5, "event_id": f"event-{number:060}"} for number in range(10_000)]}


def _bundles() -> dict[str, Any]:
    return {"events": [{"losses": [1] * 60}] * 9_900}


def _catalogue() -> dict[str, Any]:
    return {"arms": LABELS[10_000:] + [f"new {number}" for number in range(10_000)]}


def _probabilities() -> dict[str, Any]:
    share = dict.fromkeys((f"label {number}" for number in range(50_000)), 1 / 50_000)
    return {"learner": {"kind": "fixed", "arms": list(share), "probabilities": share}}


def _fed(arms: Sequence[int]) -> dict[str, Any]:
    return {"events": [{"arm": arm, "loss": 0.5} for arm in arms]}


ACT = ("/act", lambda: None)
TEN, A_THOUSAND = (("/acts", lambda count=count: {"count": count}) for count in (10, 1000))
BATCH = Large("10,000 events with ids", ONE_ARM, "POST", "/feedbacks", _batch, before=[A_THOUSAND] * 10)
BUNDLES = Large("9,900 events of 60 losses, refused", ONE_ARM, "POST", "/feedbacks", _bundles)
FED = Large("event at 100,000 arms", MANY_ARMS, "POST", "/feedback", before=[TEN] * 40)
AT_MANY_ARMS = {
    "act_at_many_arms": Large("act at 100,000 arms", MANY_ARMS, "POST", "/act"),
    "acts_at_many_arms": Large("10 acts at 100,000 arms", MANY_ARMS, "POST", "/acts", TEN[1]),
    "event_at_many_arms": FED._replace(of_drawn=lambda arms: {"arm": arms[-1], "loss": 0.5}),
    "events_at_many_arms": FED._replace(title="400 events at 100,000 arms", path="/feedbacks", of_drawn=_fed),
    "view_of_many_arms": Large("view at 100,000 arms", MANY_ARMS, "GET", "", before=[ACT]),
}
"""What one session of so many arms is asked most."""
POINT = Large("act in 1,000 dimensions", SIMPLEX | {"dim": 1000}, "POST", "/act")
LARGE_REQUESTS = {
    "view_of_many_arms": AT_MANY_ARMS["view_of_many_arms"],
    "batch_of_ids": BATCH,
    "batch_with_a_key": BATCH._replace(title="the same with an idempotency key", headers=KEYED),
    "refused_batch": BATCH._replace(title="the same, refused", before=[A_THOUSAND] * 9, status=409),
    "refused_bundles": BUNDLES._replace(headers=KEYED, status=422),
    "batch_sent_again": BATCH._replace(
        title="10,000 events, all sent before", before=[*BATCH.before, ("/feedbacks", _batch)]
    ),
    "one_large_point": POINT,
    "one_large_point_with_a_key": POINT._replace(title="the same with an idempotency key", headers=KEYED),
    "many_points": Large("1,000 acts in 31 dimensions", SIMPLEX | {"dim": 31}, "POST", "/acts", A_THOUSAND[1]),
    "many_acts": Large("1,000 acts at 1,000 arms", ONE_ARM | {"n_arms": 1000}, "POST", "/acts", A_THOUSAND[1]),
    "view_of_many_labels": Large("view at 80,000 labels", UNFIXED, "GET", ""),
    "session_of_many_labels": Large("session with 80,000 labels", *NEW, lambda: {"learner": UNFIXED}, status=201),
    "many_labels_added": Large("80,000 labels added", ONE_LABEL, "PATCH", "/arms", lambda: {"add": LABELS}),
    "many_labels_removed": Large(
        "80,000 labels removed", UNFIXED, "PATCH", "/arms", lambda: {"remove": LABELS[1:]}
    ),
    "many_labels_replaced": Large(
        "a catalogue of 80,000 labels, an eighth of them new", LABELLED, "PUT", "/arms", _catalogue
    ),
    "many_labels_paused": Large("80,000 labels paused", LABELLED, "PATCH", "/arms", lambda: {"pause": LABELS[1:]}),
    "floor_at_many_labels": Large("a floor at 80,000 labels", LABELLED, "PATCH", "", lambda: {"floor": 0.1}),
    "many_probabilities": Large("a session with 50,000 probabilities", *NEW, _probabilities, status=201),
    "arms_by_mean": Large(
        "page of 100,000 arms by their means", MANY_ARMS, "GET", "/arms?limit=1000&sort=-mean", before=[ACT]
    ),
    "page_of_sessions": Large("page of 1,000 sessions", None, "GET", "/v1/sessions?limit=1000", sessions=1000),
}
ALL = AT_MANY_ARMS | LARGE_REQUESTS


async def longest_turn(name: str, clock: Callable[[], float]) -> float:
    """Work on one of these requests, and return the longest turn of the event loop, by the clock."""
    large = ALL[name]
    async with in_process_app() as service:
        call = asyncio.create_task(await large.prepare(service))
        turns = [clock()]
        while not call.done():
            await asyncio.sleep(0)
            turns.append(clock())
        status, _ = await call
    if status != large.status:
        raise ServiceError(f"{name}: status {status}")
    return max(after - before for before, after in pairwise(turns))


@contextmanager
def worker_settings() -> Iterator[None]:
    """Threads and garbage as a worker has them."""
    before = sys.getswitchinterval()
    limit_event_loop_waits()
    try:
        yield
    finally:
        gc.unfreeze()
        sys.setswitchinterval(before)


def measure(repetitions: int, advance: Callable[[], object]) -> dict[str, Any]:
    """Return milliseconds of processor time of this thread, of the longest turn with each request."""
    found: dict[str, list[float]] = {name: [] for name in ALL}
    for name in [*found] * repetitions:
        with worker_settings():
            found[name].append(1000 * asyncio.run(longest_turn(name, time.thread_time)))
        advance()
    return {name: spread(each) for name, each in found.items()}
