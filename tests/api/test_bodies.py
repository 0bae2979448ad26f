"""Bodies of events: read as columns, in pieces and by the models, and alike in all of these ways."""

import json
import random
from contextlib import asynccontextmanager

import pytest

from service.api import json_body
from service.api.json_body import (
    PartLimits,
    check_lengths,
    parse,
    parse_small,
    plain_event,
    plain_events,
    read_in_pieces,
)
from service.api.schemas import Feedbacks
from service.app import create_app
from service.errors import ServiceError
from service.models.events import ArmEvent, RewardEvent
from service.settings import Settings
from service.store.memory import MemoryStore
from tests.support.asgi import JSON, Asked
from tests.support.examples import examples
from tests.support.recorded_answers import SESSIONS, one_session, recorded, with_keys

SETTINGS = Settings()


@asynccontextmanager
async def two_services():
    """One as it is, one that reads no columns and no pieces: both with a session of the same seed."""
    async with _served() as one, _served() as other:
        yield one, other


@asynccontextmanager
async def _served():
    app = create_app(Settings(max_events=1_500), MemoryStore(clock=lambda: 1_800_000_000.0))
    async with app.router.lifespan_context(app):
        yield Asked(app)


async def slowly(monkeypatch, asked, path, body):
    with monkeypatch.context() as patched:
        patched.setattr(json_body, "_columns", lambda events: None)
        patched.setattr(json_body, "_pieces", lambda body: ())
        return await asked.ask(path, body)


@pytest.mark.parametrize("session", ["logged", "waits", "rated"])
async def test_columns_are_judged_as_events_one_by_one(monkeypatch, session):
    chance, word = random.Random(5), "reward" if session == "rated" else "loss"
    async with two_services() as (one, other):
        for asked in (one, other):
            body = json.dumps({"session_id": "s", "seed": 5, **SESSIONS[session]}).encode()
            assert (await asked.ask("/v1/sessions", body))[0] == 201
        for _ in range(examples(100)):
            events = [
                {"arm": chance.choice([0, 0, 0, 1]), word: chance.random()}
                | ({"event_id": f"id {chance.randrange(300)}"} if chance.random() < 0.7 else {})
                for _ in range(chance.choice([1, 2, 30, 30, 700]))
            ]
            surplus = chance.choice(["", "?on_surplus=skip", "?on_surplus=refuse"])
            path, body = f"/v1/sessions/s/feedbacks{surplus}", json.dumps({"events": events}).encode()
            assert await one.ask(path, body) == await slowly(monkeypatch, other, path, body), (path, body)
            for asked in (one, other):
                await asked.ask("/v1/sessions/s/acts", b'{"count":15}')
        asked_for = [f"/v1/sessions/s/{page}" for page in ("arms", "decisions")]
        pages = [(await asked.ask(path, method="GET"))[2] for path in asked_for for asked in (one, other)]
        assert (pages[0], pages[2]) == (pages[1], pages[3])


@pytest.mark.parametrize(
    ("headers", "pieces"),
    [
        ([*JSON, (b"expect", b"100-continue")], None),
        (JSON, [b'{"arm":0', b',"loss"', b":1}"]),
        (JSON, [b'{"arm":0,"loss":' + b" " * 17_000 + b"1}"]),
        (JSON, [b"{" + b" " * 9_000, b" " * 9_000 + b'"arm":0,"loss":1}']),
    ],
)
@pytest.mark.parametrize("known", [True, False])
async def test_a_body_may_come_in_pieces_and_of_unknown_length(headers, pieces, known):
    more = [] if known else [(b"transfer-encoding", b"chunked")]
    body = b'{"arm":0,"loss":1}'
    async with _served() as asked:
        await asked.ask("/v1/sessions", json.dumps({"session_id": "s", **SESSIONS["hot"]}).encode())
        await asked.ask("/v1/sessions/s/acts", b'{"count":40}')
        headers_ = [*headers, *more]
        status, _, text = await asked.ask(
            "/v1/sessions/s/feedback", body, headers_, pieces=pieces, known_length=known
        )

    assert (status, json.loads(text)["applied"]) == (200, 1)


@pytest.mark.parametrize("declared", [b"18", b"20000"])
async def test_a_body_cut_off_is_an_error(declared):
    cut = {"headers": [*JSON, (b"content-length", declared)], "known_length": False, "pieces": [b'{"arm":0,"loss"']}
    async with _served() as asked:
        await asked.ask("/v1/sessions", json.dumps({"session_id": "s", **SESSIONS["hot"]}).encode())
        status, _, text = await asked.ask("/v1/sessions/s/feedback", **cut)

    assert (status, json.loads(text)["code"]) == (422, "invalid_request")


async def test_a_fault_is_answered_with_a_problem(monkeypatch):
    async def fail(*_):
        raise ZeroDivisionError

    monkeypatch.setattr("service.commit.committer.SessionQueues.submit", fail)
    async with _served() as asked:
        status, _, text = await asked.ask("/v1/sessions/s/act")

    assert (status, json.loads(text)["code"]) == (500, "internal_error")


def test_numbers_are_read_to_the_bit():
    """The fast parser reads numbers as Python's does."""
    chance = random.Random(3)
    written = [repr(chance.random() * 10 ** chance.randint(-300, 300)) for _ in range(2000)]
    written += [f"{chance.random():.{chance.randint(1, 60)}f}" for _ in range(2000)]
    written += [f"{chance.getrandbits(64)}e{chance.randint(-340, 280)}" for _ in range(2000)]
    for text in written:
        posted = parse_small(f'{{"arm":1,"loss":{text}}}'.encode())
        assert posted is not None
        read = plain_event(posted, SETTINGS)
        assert (read.arms, read.values) == ([1], [float(text)])


PARTS = (*'{}[],:"\\ x0\n-.eE', "},", '"a":', '"\\u0061":', "1e999", "NaN", "true", "é", "1" * 401, "\ud800")


def test_what_the_fast_parser_takes_is_what_the_strict_one_takes():
    """Whatever it reads is the same object; what it leaves may be right all the same."""
    chance, limits, taken = random.Random(7), PartLimits.of(SETTINGS), 0
    whole = '{"arm":1,"loss":0.5,"event_id":"a:b","more":{"a":[1,2.5,"x"],"b":null}}'
    for _ in range(examples(20_000)):
        at = chance.randrange(len(whole))
        text = whole[:at] + chance.choice(["", *PARTS]) + whole[at + chance.choice([0, 0, 1, 2]) :]
        body = text.encode("utf-8", "surrogatepass")
        if (posted := parse_small(body)) is not None:
            assert repr(parse(body, limits)) == repr(posted), body
            taken += 1
    assert taken > examples(20_000) / 5


def test_the_events_of_columns_are_those_of_the_models():
    events = [{"arm": 1, "reward": 1}, {"arm": 0, "reward": 0.5, "event_id": "a:b"}]
    read = plain_events({"events": events}, SETTINGS).events
    assert list(read) == [RewardEvent(arm=1, reward=1.0), RewardEvent(arm=0, reward=0.5, event_id="a:b")]
    assert read[1:] == [RewardEvent(arm=0, reward=0.5, event_id="a:b")] == [read[-1]]
    assert read[0] is read[0]
    one = plain_event({"arm": 1, "loss": 1}, SETTINGS)
    assert (len(one), one[0]) == (1, ArmEvent(arm=1, loss=1.0))


EVENTS = (
    *('{"arm":1,"loss":0.5}', '{"arm": 2, "loss": 1, "event_id": "id"}'),
    *('{"arm":0,"loss":0,"event_id":"},{"}', '{"arm":0,"loss":0,"event_id":"\\"},{"}'),
    *('{"arm":0,"reward":1}', '{"label":"a}, {","loss":1}', '{"arm":0,"loss":null}'),
    '{"losses":[0.5,1]}',
)


ODD_PARTS = (*'{}[],:"\\ x0\n', "},", "},{", '"events":', "]}", '{"events":[', "é")


def _batches(chance):
    """A batch, now and then with something wrong."""
    separator = chance.choice([",", ", ", ",\n", " ,"])
    events = separator.join(chance.choices(EVENTS[: chance.choice([1, 2, 3, len(EVENTS)])], k=chance.randrange(21)))
    body = chance.choice(['{"events":[%s]}', '{"events": [%s]}', ' {\n"events" :\t[ %s ] } ']) % events
    if chance.random() < 0.5:
        return body
    at = chance.randrange(len(body))
    return body[:at] + chance.choice(["", *ODD_PARTS]) + body[at + chance.choice([0, 0, 1, 2]) :]


def _at_once(body):
    """The events of a batch, read strictly; None if anything is wrong."""
    try:
        posted = parse(body, PartLimits.of(SETTINGS))
        check_lengths(posted, SETTINGS)
        return Feedbacks.model_validate(posted).events
    except (ServiceError, ValueError):
        return None


async def test_whatever_is_read_in_pieces_is_what_is_read_at_once(monkeypatch):
    """With pieces of some bytes, so that they end everywhere."""
    monkeypatch.setattr(json_body, "PIECE_BYTES", 30)
    monkeypatch.setattr(json_body, "MAX_EVENT_BYTES", 50)
    chance, read = random.Random(11), 0

    def small(piece):
        posted = parse_small(piece)
        batch = None if posted is None else plain_events(posted, SETTINGS)
        return _at_once(piece) if batch is None else batch.events

    for _ in range(examples(20_000)):
        body = _batches(chance).encode()
        found, whole = await read_in_pieces(small, 15, body), _at_once(body)
        if found is not None:
            assert whole is not None, body
            assert list(found) == list(whole), body
            assert len(found) <= 15
            read += 1
    assert read > examples(20_000) / 5


async def test_features_do_not_keep_a_batch_from_being_read_in_pieces():
    events = [{"arm": 0, "features": {"age": age}, "reward": 1} for age in range(1000)]
    body = json.dumps({"events": events}).encode()
    assert await read_in_pieces(lambda piece: parse_small(piece)["events"], 1000, body) == events


@pytest.mark.parametrize(
    "session",
    ["hot", *(pytest.param(name, marks=pytest.mark.slow) for name in [*SESSIONS, "keys"] if name != "hot")],
)
async def test_every_request_gets_the_recorded_answer(session):
    before = recorded()[session]
    now = await (with_keys() if session == "keys" else one_session(session))

    assert len(now) == len(before) > 500
    assert [(was, found) for was, found in zip(before, now, strict=True) if was != found] == []
