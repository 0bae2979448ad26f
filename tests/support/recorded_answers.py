"""What the service answered to the corpora of requests, byte for byte, when it was last recorded.

``python -m tests.support.recorded_answers`` compares; with ``--record`` it writes what changed on purpose to
``tests/recorded/answers.json.gz``.
"""

from __future__ import annotations

import asyncio
import gzip
import itertools
import json
import re
import sys
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from service.app import create_app
from service.settings import SecretText, Settings
from service.store.memory import MemoryStore
from tests.support.asgi import JSON, Asked
from tests.support.large_corpus import large_corpus, plain_batch
from tests.support.request_corpus import corpus, session_corpus

RECORDED = Path(__file__).parents[1] / "recorded/answers.json.gz"
MOST = 1_500
LIMITS = {
    "history": False,
    "max_acts": 1_000,
    "max_events": MOST,
    "max_body_bytes": 150_000,
    "max_import_bytes": 150_000,
}
ARMS = {"kind": "dexp3", "n_arms": 3}
SESSIONS: dict[str, dict[str, Any]] = {
    "hot": {"learner": ARMS},
    "rated": {"learner": ARMS, "reward_range": [0, 1]},
    "named": {"learner": {"kind": "centred_tsallis", "arms": ["a", "b:c", "é"]}},
    "waits": {"learner": {"kind": "dexp3", "n_arms": 2}, "expiry": {"after_seconds": 3600, "default_loss": 1}},
    "logged": {"learner": ARMS, "decision_log": {"max_entries": 100}},
    "slots": {"learner": {"kind": "exp3", "n_arms": 3, "learning_rate": 0.1}},
    "points": {"learner": {"kind": "dbgd", "dim": 2, "feasible_set": {"kind": "ball", "radius": 1}}},
    "parts": {
        "learner": {"kind": "multiscale_tsallis", "arms": ["a", "b", "c"]},
        "reward_range": [0, 1],
        "segments": {"max": 3},
    },
}
KEYS = [
    {"name": name, "key": secret * 4, "role": role, **more}
    for name, secret, role, more in (
        ("all", "adminadmin", "admin", {}),
        ("shop", "clientclie", "client", {"max_body_bytes": 500}),
        ("eyes", "readerread", "reader", {}),
        ("team", "prefixpref", "admin", {"session_prefix": "hot", "max_arms": 3}),
    )
]
OF_THE_MOMENT = re.compile(r'"version":"[^"]*"|"part":"[^"]*"|"sha256":"[^"]*"')
Call = tuple[str, str, bytes, list[tuple[bytes, bytes]]]


def route_corpus(session: str) -> Iterator[Call]:
    """Requests of every other route, with their queries, methods and headers."""
    path = f"/v1/sessions/{session}"
    for page in ("arms", "segments", "decisions", "history", "export"):
        for query in (
            "",
            "?limit=2",
            "?limit=0",
            "?limit=x",
            "?limit=1&limit=2",
            "?cursor=x",
            "?sort=-index",
            "?a=1",
        ):
            yield "GET", f"{path}/{page}?{query}", b"", []
        for method in ("HEAD", "POST", "DELETE"):
            yield method, f"{path}/{page}", b"{}", JSON
    for query in ("?segment=a", "?segment=none", "?segment=" + "x" * 200):
        yield "GET", f"{path}{query}", b"", []
        yield "GET", f"{path}/arms{query}", b"", []
    for body in (
        b'{"idle_ttl_seconds":60}',
        b'{"floor":0.1}',
        b'{"floor":9}',
        b'{"expiry":null}',
        b"{}",
        b"",
        b"[]",
    ):
        yield "PATCH", path, body, JSON
    for body in (b'{"add":["z"]}', b'{"remove":["a"]}', b'{"pause":["z"]}', b'{"other":[]}', b'{"add":[1]}', b""):
        yield "PATCH", f"{path}/arms", body, JSON
    for body in (b'{"arms":["a","b:c"]}', b'{"arms":[]}', b"{}"):
        yield "PUT", f"{path}/arms", body, JSON
    for key in (b"once", b"once", b"", b"x" * 300, "é".encode()):
        keyed = [*JSON, (b"idempotency-key", key)]
        yield "POST", f"{path}/act", b"{}", keyed
        yield "POST", f"{path}/acts", b'{"count":2}', keyed
        yield "POST", f"{path}/feedbacks?on_surplus=skip", b'{"events":[{"arm":0,"loss":0.5}]}', keyed
        yield "POST", "/v1/sessions", b'{"learner":{"kind":"dexp3","n_arms":3},"session_id":"keyed"}', keyed
    for headers in (
        [(b"content-type", b"text/plain")],
        [*JSON, *JSON],
        [(b"content-type", b"application/json; charset=utf-8")],
        [(b"content-type", b"application/json; charset=latin-1")],
        [*JSON, (b"content-encoding", b"gzip")],
        [*JSON, (b"content-encoding", b"identity")],
        [],
    ):
        yield "POST", f"{path}/feedback?on_surplus=skip", b'{"arm":0,"loss":0.5}', headers
        yield "POST", f"{path}/act", b"{}", headers
    for path in ("/v1/key", "/v1/sessions?limit=3", "/v1/sessions?cursor=x", "/v1", "/v1/", "/v1/none", "/livez"):
        for method in ("GET", "HEAD", "POST", "OPTIONS"):
            yield method, path, b"", []
    yield "POST", "/v1/sessions/import", b'{"session_id":"x"}', JSON
    yield "POST", "/v1/sessions/import", b"[]", JSON
    yield "DELETE", "/v1/sessions/keyed", b"", []
    yield "DELETE", "/v1/sessions/none", b"{}", JSON


def calls(session: str, arms: list[int]) -> Iterator[Call]:
    """All requests to one session, in their order."""
    yield from (("POST", path, body, JSON) for path, body in corpus(session))
    yield from ((method, path, body, JSON) for method, path, body in session_corpus(session))
    yield from (("POST", path, body, JSON) for path, body in large_corpus(session, arms, MOST))
    yield "POST", f"/v1/sessions/{session}/feedbacks?on_surplus=skip", plain_batch([0] * MOST, "x"), JSON
    yield from route_corpus(session)


@asynccontextmanager
async def served(**settings: Any) -> AsyncIterator[Asked]:
    """A service in this process, in whose store time stands still."""
    numbers = itertools.count(1)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(uuid, "uuid4", lambda: uuid.UUID(int=next(numbers), version=4))
        app = create_app(Settings(**LIMITS, **settings), MemoryStore(clock=lambda: 1_800_000_000.0))
        async with app.router.lifespan_context(app):
            yield Asked(app)


async def answered(asked: Asked, call: Call) -> list[Any]:
    method, path, body, headers = call
    status, told, text = await asked.ask(path, body, headers, method)
    head = [f"{name.decode()}: {value.decode('latin-1')}" for name, value in told if name != b"content-length"]
    return [status, head, OF_THE_MOMENT.sub("...", text.decode())]


async def one_session(session: str) -> list[list[Any]]:
    """Answers to all requests to one session, in a service without API keys."""
    async with served() as asked:
        body = json.dumps({"session_id": session, "seed": 5, **SESSIONS[session]}).encode()
        found = [await answered(asked, ("POST", "/v1/sessions", body, JSON))]
        arms: list[int] = []
        for _ in range(3):
            _, _, told = await asked.ask(f"/v1/sessions/{session}/acts", b'{"count":1000}')
            arms += [action.get("arm", 0) for action in json.loads(told)["actions"]]
        return found + [await answered(asked, call) for call in calls(session, arms)]


async def with_keys() -> list[list[Any]]:
    """Answers to requests with each API key, with none, and with a wrong one."""
    found = []
    async with served(api_keys=SecretText(json.dumps(KEYS))) as asked:
        for secret in (*(key["key"] for key in KEYS), "wrong", ""):
            headers = [(b"authorization", b"Bearer " + secret.encode())] if secret else []
            for name in ("hot", "named"):
                body = json.dumps({"session_id": name, "seed": 5, **SESSIONS[name]}).encode()
                found.append(await answered(asked, ("POST", "/v1/sessions", body, [*JSON, *headers])))
                some = [("POST", path, body, JSON) for path, body in corpus(name)][:40]
                some += [(method, path, body, JSON) for method, path, body in session_corpus(name)]
                for method, path, body, given in [*some, *route_corpus(name)]:
                    found.append(await answered(asked, (method, path, body, [*given, *headers])))
    return found


def recorded() -> dict[str, list[list[Any]]]:
    known: dict[str, list[list[Any]]] = json.loads(gzip.decompress(RECORDED.read_bytes()))
    return known


async def answers() -> dict[str, list[list[Any]]]:
    return {session: await one_session(session) for session in SESSIONS} | {"keys": await with_keys()}


def main() -> None:
    found = asyncio.run(answers())
    if "--record" in sys.argv:
        RECORDED.write_bytes(gzip.compress(json.dumps(found).encode(), mtime=0))
        return
    for name, lines in found.items():
        for number, (now, before) in enumerate(zip(lines, recorded()[name], strict=True)):
            if now != before:
                sys.exit(f"{name}, request {number}:\n- {str(before)[:2000]}\n+ {str(now)[:2000]}")


if __name__ == "__main__":
    main()
