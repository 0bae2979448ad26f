"""Large batches are read in pieces, and are answered as FastAPI's route answers them, byte for byte."""

from __future__ import annotations

import json
import random
from functools import partial

import pytest
from pydantic import TypeAdapter

from service.api import fast_path as large_batches
from service.api import schemas
from service.api.fast_path import _read, _read_events, read_in_pieces
from service.api.request_body import PartLimits
from service.cooperative import LARGE_INPUT_BYTES
from service.settings import Settings
from tests.support.asgi import JSON
from tests.support.both_ways import LEARNERS, both_ways
from tests.support.examples import examples
from tests.support.large_corpus import large_corpus, plain_batch

MOST = 1_500


@pytest.fixture
async def both(monkeypatch):
    async with both_ways(monkeypatch, Settings(max_events=MOST, max_body_bytes=150_000)) as asked:
        yield asked


async def acted(both, session):
    """Let both act some thousand times, and give the arms drawn."""
    arms = []
    for _ in range(3):
        for app in both[:2]:
            status, _, told = await app.ask(f"/v1/sessions/{session}/acts", b'{"count":1000}')
            assert status == 200
        arms += [action.get("arm", 0) for action in json.loads(told)["actions"]]
    return arms


async def counts(app, session):
    """All that a session shows of what was settled, but its times."""
    view = json.loads((await app.ask(f"/v1/sessions/{session}", method="GET"))[2])
    for name in ("version", "created_at", "expires_at", "last_act_at", "last_event_at"):
        del view[name]
    arms, log = [
        json.loads((await app.ask(f"/v1/sessions/{session}/{part}", method="GET"))[2])
        for part in ("arms", "decisions")
    ]
    return view, arms.get("arms"), [entry | {"at": None} for entry in log.get("decisions", ())]


@pytest.mark.parametrize(
    "session", ["hot", *(pytest.param(name, marks=pytest.mark.slow) for name in LEARNERS if name != "hot")]
)
async def test_every_large_batch_gets_the_answer_of_the_route(both, session):
    hot, plain, by_fastapi = both
    arms = await acted(both, session)
    by_fastapi.clear()
    asked = list(large_corpus(session, arms, MOST))
    for path, body in asked:
        assert len(body) >= LARGE_INPUT_BYTES
        assert await hot.ask(path, body) == await plain.ask(path, body), (path, body[:200], body[-200:])
    assert await counts(hot, session) == await counts(plain, session)
    assert 0 < len(by_fastapi) < len(asked)


async def test_large_batches_that_are_right_never_reach_fastapi(both):
    hot, _, by_fastapi = both
    arms = await acted(both, "hot")
    by_fastapi.clear()
    for events in (arms[:1000], arms[1000:2000]):
        status, _, told = await hot.ask("/v1/sessions/hot/feedbacks", plain_batch(events))
        assert (status, json.loads(told)["applied"]) == (200, 1000)
    status, _, told = await hot.ask("/v1/sessions/hot/feedbacks?on_surplus=skip", plain_batch([0] * MOST, "x"))

    assert (status, json.loads(told)["surplus"] > 0) == (200, True)
    assert not by_fastapi


@pytest.mark.parametrize("session", ["logged", "waits", "rated"])
async def test_duplicates_and_surplus_among_plain_events(both, session):
    """Events of the route are judged one by one, plain ones as columns."""
    hot, plain, by_fastapi = both
    chance, word = random.Random(5), "reward" if session == "rated" else "loss"
    for _ in range(examples(100)):
        events = [
            {"arm": chance.choice([0, 0, 0, 1]), word: chance.random()}
            | ({"event_id": f"id {chance.randrange(300)}"} if chance.random() < 0.7 else {})
            for _ in range(chance.choice([1, 2, 30, 30]))
        ]
        surplus = chance.choice(["", "?on_surplus=skip", "?on_surplus=refuse"])
        path, body = f"/v1/sessions/{session}/feedbacks{surplus}", json.dumps({"events": events}).encode()
        assert await hot.ask(path, body) == await plain.ask(path, body), (path, body)
        for app in (hot, plain):
            await app.ask(f"/v1/sessions/{session}/acts", b'{"count":15}')
    assert not by_fastapi
    assert await counts(hot, session) == await counts(plain, session)


@pytest.mark.parametrize(
    ("headers", "known"),
    [
        (JSON, False),
        ([], True),
        ([*JSON, (b"content-encoding", b"gzip")], True),
        ([*JSON, (b"idempotency-key", b"once")], True),
        ([*JSON, (b"content-length", b"0" * 13 + b"9")], True),
    ],
)
async def test_headers_that_ask_for_more_and_pieces_of_a_large_body(both, headers, known):
    hot, plain, _ = both
    arms = await acted(both, "hot")
    body = plain_batch(arms[:1000])
    more = [] if known else [(b"transfer-encoding", b"chunked")]
    for pieces in ([body], [body[:20_000], body[20_000:]], [body[:20_000]]):
        answers = [
            await app.ask(
                "/v1/sessions/hot/feedbacks", headers=[*headers, *more], pieces=pieces, known_length=known
            )
            for app in (hot, plain)
        ]
        assert answers[0] == answers[1]


async def test_a_large_body_cut_off_is_the_same_error(both):
    hot, plain, _ = both
    cut = {"headers": [*JSON, (b"content-length", b"20000")], "known_length": False, "pieces": [b'{"events":[']}
    answers = [await app.ask("/v1/sessions/hot/feedbacks", **cut) for app in (hot, plain)]

    assert answers[0] == answers[1]
    assert answers[0][0] == 422


EVENTS = (
    '{"arm":1,"loss":0.5}',
    '{"arm": 2, "loss": 1, "event_id": "id"}',
    '{"arm":0,"loss":0,"event_id":"},{"}',
    '{"arm":0,"loss":0,"event_id":"\\"},{"}',
    '{"arm":0,"reward":1}',
    '{"label":"a}, {","loss":1}',
    '{"arm":0,"loss":null}',
    '{"losses":[0.5,1]}',
)
PARTS = (*'{}[],:"\\ x0\n', "},", "},{", '"events":', "]}", '{"events":[', "é")


def _batches(chance):
    """A batch, now and then with something wrong."""
    separator = chance.choice([",", ", ", ",\n", " ,"])
    events = separator.join(
        chance.choices(EVENTS[: chance.choice([1, 2, 3, len(EVENTS)])], k=chance.randint(0, 20))
    )
    body = chance.choice(['{"events":[%s]}', '{"events": [%s]}', ' {\n"events" :\t[ %s ] } ']) % events
    if chance.random() < 0.5:
        return body
    at = chance.randrange(len(body))
    return body[:at] + chance.choice(["", *PARTS]) + body[at + chance.choice([0, 0, 1, 2]) :]


async def test_whatever_is_read_in_pieces_is_what_is_read_at_once(monkeypatch):
    """With pieces of some bytes, so that they end everywhere."""
    monkeypatch.setattr(large_batches, "PIECE_BYTES", 30)
    monkeypatch.setattr(large_batches, "MAX_EVENT_BYTES", 50)
    chance, settings, read = random.Random(11), Settings(), 0
    at_once = partial(_read, TypeAdapter(schemas.Feedbacks), settings, PartLimits.of(settings))
    small = partial(_read_events, 15, at_once)
    for _ in range(examples(20_000)):
        body = _batches(chance).encode()
        found, whole = await read_in_pieces(small, 15, body), at_once(body)
        if found is not None:
            assert whole is not None, body
            assert list(found) == whole.events, body
            assert len(found) <= 15
            read += 1
    assert read > examples(20_000) / 5


async def test_batches_that_are_right_are_divided(monkeypatch):
    monkeypatch.setattr(large_batches, "PIECE_BYTES", 100)
    sizes = []

    def read(piece):
        events = json.loads(piece)["events"]
        sizes.append(len(events))
        return events

    events = [{"arm": number, "loss": 0.5} for number in range(2_000)]
    for body in (json.dumps({"events": events}), json.dumps({"events": events}, indent=1)):
        assert await read_in_pieces(read, 2_000, body.encode()) == events
    assert len(sizes) > 100
    assert await read_in_pieces(read, 1_999, json.dumps({"events": events}).encode()) is None
