"""What the service answered to the requests, byte for byte, when it was last recorded.

``python -m tests.support.recorded_answers`` records them anew, for what changed on purpose. The requests are in
``tests/recorded/requests.json`` and large batches.
"""

import asyncio
import gzip
import itertools
import json
import re
import uuid
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from service.app import create_app
from service.settings import SecretText, Settings
from service.store.memory import MemoryStore
from tests.support.asgi import JSON, Asked

RECORDED = Path(__file__).parents[1] / "recorded/answers.json.gz"
REQUESTS = json.loads((RECORDED.parent / "requests.json").read_text())
"""Lists of method, path, body, and headers where they are not those of JSON; bodies are latin-1."""
MOST = 1_500
LIMITS = {"history": False, "max_acts": 1_000, "max_events": MOST}
LIMITS |= {"max_body_bytes": 150_000, "max_import_bytes": 150_000}
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
OTHERS = ("views and creations", "every other route")
Call = tuple[str, str, bytes, list[tuple[bytes, bytes]]]


def requests(part: str, session: str) -> Iterator[Call]:
    """Requests that do not depend on what is drawn: one part of ``tests/recorded/requests.json``."""
    for method, path, body, *headers in REQUESTS[part]:
        given = [(name.encode(), value.encode("latin-1")) for name, value in headers[0]] if headers else JSON
        yield method, path.replace("{session}", session), body.encode("latin-1"), given


def plain_event(arm: int, event_id: str | None = None) -> bytes:
    """A plain event."""
    told = "" if event_id is None else f',"event_id":"{event_id}"'
    return f'{{"arm":{arm},"loss":0.{arm}25{told}}}'.encode()


def plain_batch(arms: Sequence[int], ids: str | None = None) -> bytes:
    """Plain events of these arms; with ids that begin so, if any."""
    return batch([plain_event(arm, None if ids is None else f"{ids}{place}") for place, arm in enumerate(arms)])


def batch(events: Sequence[bytes]) -> bytes:
    """A body with these events."""
    return b'{"events":[' + b",".join(events) + b"]}"


ODD = [each.encode("latin-1") for each in REQUESTS["odd events"]]
"""What an event may be instead."""


def large_corpus(session: str, arms: Sequence[int], most: int) -> Iterator[tuple[str, bytes]]:
    """Path and body of large batches.

    Parameters
    ----------
    session : its id
    arms : of its decisions, more than ``most``
    most : events that a batch may have
    """
    path = f"/v1/sessions/{session}/feedbacks"
    right, half = [plain_event(arm) for arm in arms[:900]], [plain_event(arm) for arm in arms[900:1350]]
    for place in (0, 450, 899):
        for odd in ODD:
            yield path, batch([*right[:place], odd, *right[place + 1 :]])
    yield f"{path}?on_surplus=refuse", plain_batch([0] * most)
    yield path, batch(right)
    ids = plain_batch(arms[900:1800], "id:")
    yield from ((path, ids), (path, ids))
    yield f"{path}?on_surplus=skip", plain_batch([*arms[:800], *arms[1800:1900]], "id:")
    yield path, plain_batch([0] * most + [0])
    yield f"{path}?on_surplus=skip", batch([*half, plain_event(0, "twice"), *half, plain_event(0, "twice")])
    yield path, batch([plain_event(arm, "},{") for arm in arms[:900]])
    yield f"{path}?on_surplus=skip", batch([plain_event(arm, f"a}},{{b{at}") for at, arm in enumerate(arms[:600])])
    yield f"{path}?on_surplus=skip", plain_batch(arms[:900]).replace(b":", b" :\t").replace(b"},", b"},\r\n ")
    yield f"{path}?on_surplus=skip", plain_batch(arms[:900]).replace(b"},", b"} ,")
    yield f"{path}?on_surplus=skip", plain_batch(arms[:900]).replace(b"loss", b"reward")
    words = (b"loss", b"reward")
    yield f"{path}?on_surplus=skip", batch([b'{"arm":0,"%b":1}' % words[at > 500] for at in range(1000)])
    slots = [b'{"arm":%d,"loss":0.5,"slot":%d}' % (arm, slot) for slot, arm in enumerate(arms, 1)]
    yield f"{path}?on_surplus=skip", batch(slots[1900:2800])
    yield f"{path}?on_surplus=skip", batch([*right, *slots[2800:2900]])
    yield f"{path}?on_surplus=skip", batch([b'{"label":"b:c","loss":0.5}'] * 1000)
    yield f"{path}?on_surplus=skip", batch([b'{"losses":[0.5,0.5,0.25]}'] * 1000)
    yield f"{path}?on_surplus=skip", batch([b'{"arm":1,"loss":null}'] * 1000)
    body = plain_batch(arms[:900])
    yield path, body.replace(b'{"events"', b'{"events":[],"events"')
    yield path, body.replace(b'"events":[', b'"events":[,')
    yield path, body.replace(b"]}", b",]}")
    yield from (
        (path, before + body + after) for before, after in ((b"\xef\xbb\xbf", b""), (b"", b"x"), (b"[", b"]"))
    )
    yield f"{path}?on_surplus=skip", b" " * 200 + body + b"\n" * 200
    yield path, b'{"events":[' + b" " * 20_000 + b"]}"
    yield path, body + b" " * 200_000
    yield f"{path}?on_invalid=skip", batch([*right, plain_event(77)])
    yield f"{path}?on_surplus=no", body
    yield "/v1/sessions/none/feedbacks", body
    yield "/v1/sessions/-/feedbacks", body
    yield f"/v1/sessions/{session}/feedback", b" " * 20_000 + plain_event(0)


def calls(session: str, arms: list[int]) -> Iterator[Call]:
    """All requests to one session, in their order."""
    yield from requests("acts and events", session)
    yield from requests("views and creations", session)
    yield from (("POST", path, body, JSON) for path, body in large_corpus(session, arms, MOST))
    yield "POST", f"/v1/sessions/{session}/feedbacks?on_surplus=skip", plain_batch([0] * MOST, "x"), JSON
    yield from requests("every other route", session)


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
                some = [*requests("acts and events", name)][:40], *(requests(part, name) for part in OTHERS)
                for method, path, body, given in itertools.chain(*some):
                    found.append(await answered(asked, (method, path, body, [*given, *headers])))
    return found


def recorded() -> dict[str, list[list[Any]]]:
    known: dict[str, list[list[Any]]] = json.loads(gzip.decompress(RECORDED.read_bytes()))
    return known


async def answers() -> dict[str, list[list[Any]]]:
    return {session: await one_session(session) for session in SESSIONS} | {"keys": await with_keys()}


if __name__ == "__main__":
    RECORDED.write_bytes(gzip.compress(json.dumps(asyncio.run(answers())).encode(), mtime=0))
