"""Plain calls are answered before FastAPI, and every call as FastAPI's routes answer it, byte for byte."""

from __future__ import annotations

import json
import random
import re

import pytest

from service.api.fast_path import plain_event, plain_events
from service.models.events import ArmEvent, RewardEvent
from service.settings import Settings
from tests.support.asgi import JSON
from tests.support.both_ways import LEARNERS, both_ways
from tests.support.request_corpus import corpus, session_corpus

OF_THE_MOMENT = re.compile(rb'"(version|created_at|expires_at|last_act_at|last_event_at)":"[^"]*"')
OF_CHANCE = re.compile(rb'"session_id":"[0-9a-f-]{36}"')


async def answer(app, method, path, body):
    """What an application answers, without what differs between two calls of one."""
    status, headers, told = await app.ask(path, body, method=method)
    return status, headers, OF_CHANCE.sub(b"", OF_THE_MOMENT.sub(b"", told))


@pytest.fixture
async def both(monkeypatch):
    async with both_ways(monkeypatch, Settings(max_acts=50, max_events=20, max_body_bytes=20_000)) as asked:
        yield asked


@pytest.mark.parametrize(
    "session", ["hot", *(pytest.param(name, marks=pytest.mark.slow) for name in LEARNERS if name != "hot")]
)
async def test_every_request_gets_the_answer_of_the_route(both, session):
    hot, plain, by_fastapi = both
    asked = list(corpus(session))
    for path, body in asked:
        assert await hot.ask(path, body) == await plain.ask(path, body), (path, body)
    views = [json.loads((await app.ask(f"/v1/sessions/{session}", method="GET"))[2]) for app in (hot, plain)]
    for view in views:
        for name in ("version", "created_at", "expires_at", "last_act_at", "last_event_at"):
            del view[name]
    assert views[0] == views[1]
    logs = [
        json.loads((await app.ask(f"/v1/sessions/{session}/decisions", method="GET"))[2]) for app in (hot, plain)
    ]
    entries = [[{**entry, "at": None} for entry in log.get("decisions", ())] for log in logs]
    assert entries[0] == entries[1]
    assert 0 < len(by_fastapi) < len(asked)


@pytest.mark.parametrize(
    "session", ["hot", *(pytest.param(name, marks=pytest.mark.slow) for name in LEARNERS if name != "hot")]
)
async def test_views_and_creations_get_the_answer_of_the_route(both, session):
    hot, plain, by_fastapi = both
    for app in (hot, plain):
        await app.ask(f"/v1/sessions/{session}/acts", b'{"count":40}')
    asked = list(session_corpus(session))
    for call in asked:
        assert await answer(hot, *call) == await answer(plain, *call), call
    assert 0 < len(by_fastapi) < len(asked)


@pytest.mark.parametrize(
    ("headers", "pieces"),
    [
        ([], None),
        ([*JSON, *JSON], None),
        ([(b"content-type", b"text/plain")], None),
        ([(b"content-type", b"application/json; charset=utf-8")], None),
        ([*JSON, (b"content-encoding", b"gzip")], None),
        ([*JSON, (b"idempotency-key", b"once")], None),
        ([*JSON, (b"idempotency-key", b"")], None),
        ([*JSON, (b"expect", b"100-continue")], None),
        (JSON, [b'{"arm":0', b',"loss"', b":1}"]),
        (JSON, [b'{"arm":0,"loss":1', b"" * 3, b"x}"]),
        (JSON, [b'{"arm":0,"loss":' + b" " * 17_000 + b"1}"]),
        (JSON, [b'{"arm":0,"loss":' + b" " * 21_000 + b"1}"]),
    ],
)
async def test_headers_and_pieces_of_a_body(both, headers, pieces):
    hot, plain, _ = both
    for app in (hot, plain):
        await app.ask("/v1/sessions/hot/acts", b'{"count":40}')
    for known in (True, False):
        more = [] if known else [(b"transfer-encoding", b"chunked")]
        answers = [
            await app.ask(
                "/v1/sessions/hot/feedback",
                b'{"arm":0,"loss":1}',
                [*headers, *more],
                pieces=pieces,
                known_length=known,
            )
            for app in (hot, plain)
        ]
        assert answers[0] == answers[1]


async def test_a_body_cut_off_is_the_same_error(both):
    hot, plain, _ = both
    cut = {"headers": [*JSON, (b"content-length", b"18")], "known_length": False, "pieces": [b'{"arm":0,"loss"']}
    answers = [await app.ask("/v1/sessions/hot/feedback", **cut) for app in (hot, plain)]

    assert answers[0] == answers[1]
    assert answers[0][0] == 422


async def test_plain_calls_never_reach_fastapi(both):
    hot, _, by_fastapi = both
    for path, body in [
        ("act", b""),
        ("acts", b'{"count":40}'),
        ("feedback?on_surplus=skip", b'{"arm":0,"loss":0.5,"event_id":"x"}'),
        ("feedbacks", b'{"events":[{"arm":0,"loss":1},{"arm":0,"loss":0}]}'),
    ]:
        assert (await hot.ask(f"/v1/sessions/hot/{path}", body))[0] == 200
    assert (await hot.ask("/v1/sessions/hot", method="GET"))[0] == 200
    for fields, status in (("", 201), (',"session_id":"twice"', 201), (',"session_id":"twice"', 200)):
        body = f'{{"learner":{{"kind":"dexp3","n_arms":3}}{fields}}}'.encode()
        assert (await hot.ask("/v1/sessions", body))[0] == status

    assert not by_fastapi


async def test_a_fault_is_answered_and_logged_as_by_the_route(both, monkeypatch):
    hot, plain, _ = both

    async def fail(*_):
        raise ZeroDivisionError

    monkeypatch.setattr("service.sessions.service.Sessions.submit", fail)
    answers = [await app.ask("/v1/sessions/hot/act") for app in (hot, plain)]

    assert answers[0] == answers[1]
    assert answers[0][0] == 500


def test_numbers_are_read_to_the_bit():
    """The JSON parser of pydantic reads numbers as Python's does."""
    chance = random.Random(3)
    written = [repr(chance.random() * 10 ** chance.randint(-300, 300)) for _ in range(2000)]
    written += [f"{chance.random():.{chance.randint(1, 60)}f}" for _ in range(2000)]
    written += [f"{chance.getrandbits(64)}e{chance.randint(-340, 280)}" for _ in range(2000)]
    for text in written:
        read = plain_event(f'{{"arm":1,"loss":{text}}}'.encode())
        assert read is not None
        assert (read.arms, read.values) == ([1], [float(text)])


def test_the_events_of_columns_are_those_of_the_models():
    read = plain_events(b'{"events":[{"arm":1,"reward":1},{"arm":0,"reward":0.5,"event_id":"a:b"}]}', 10)

    assert read is not None
    assert list(read) == [RewardEvent(arm=1, reward=1.0), RewardEvent(arm=0, reward=0.5, event_id="a:b")]
    assert read[1:] == [RewardEvent(arm=0, reward=0.5, event_id="a:b")] == [read[-1]]
    assert read[0] is read[0]
    one = plain_event(b'{"arm":1,"loss":1}')
    assert one is not None
    assert (len(one), one[0]) == (1, ArmEvent(arm=1, loss=1.0))
