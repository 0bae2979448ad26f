"""Answers that no service gives: they are errors, cost little, settle nothing, and are told with fitting advice."""

import gzip
import json
import pickle
import tracemalloc
import zlib

import httpx
import pytest

from service.client import AsyncBandits, BadAnswerError
from tests.client.conftest import ACTION, AWAY, BUSY, LATER, SETTLED, VIEW, problem, scripted, settled

pytestmark = pytest.mark.usefixtures("short_pauses")


def answer(content, encoding="identity", status=200):
    headers = {"Content-Encoding": encoding, "Content-Type": "application/json"}
    return lambda _: httpx.Response(status, headers=headers, stream=httpx.ByteStream(content))


def said(given, status=200):
    return answer(json.dumps(given).encode(), status=status)


WHOLE = json.dumps(ACTION).encode()
PACKER = zlib.compressobj(wbits=31)
FIRST, NEXT = (PACKER.compress(b" " * 1_000_000) + PACKER.flush(zlib.Z_FULL_FLUSH) for _ in range(2))
BOMB = FIRST + 99 * NEXT
NO_JSON = [
    *(answer(content) for content in (b"", b"<html>", b"[]", b"[" * 100_000, b" " * 16_000_001)),
    *(answer(content, "gzip") for content in (BOMB, WHOLE, gzip.compress(WHOLE)[:-20])),
    *(answer(WHOLE, encoding) for encoding in ("br", "gzip, gzip")),
    *(answer(WHOLE[:-5]), answer(b'{"a":' * 100_000, status=422), httpx.Response(204)),
]


@pytest.mark.parametrize("failure", NO_JSON)
async def test_what_is_no_answer_costs_little_and_is_an_error(failure):
    bandits, script = scripted(failure)
    awaited = AsyncBandits("http://service", transport=script)
    tracemalloc.start()
    actions = bandits.session("s").act(fallback="hat"), await awaited.session("s").act(fallback="hat")
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert {type(action.error) for action in actions} == {BadAnswerError}
    assert len(script.requests) == 2
    assert most < 80_000_000


async def test_a_packed_answer_is_unpacked():
    bandits, script = scripted(answer(gzip.compress(WHOLE), "gzip"))
    awaited = AsyncBandits("http://service", transport=script)

    assert bandits.session("s").act().label == (await awaited.session("s").act()).label == "shoes"
    assert {request.headers["Accept-Encoding"] for request in script.requests} == {"gzip"}


NAN, HUGE = float("nan"), 10**400
NO_ACTIONS = [
    *({"probability": wrong} for wrong in (NAN, float("inf"), HUGE, -0.5, 2, "0.5", True, [])),
    *({"slot": wrong} for wrong in (None, "1", True, 1.0, -1, HUGE, [1])),
    *({"arm": wrong} for wrong in ("0", True, -1, 0.5)),
    *({name: wrong} for name in ("label", "group") for wrong in (5, ["shoes"])),
    *({"x": wrong} for wrong in (5, "12", {"0": 1}, [NAN], [HUGE], ["1"], [[1.0]])),
    *({"x": [0.5], "query_points": [[NAN]]}, {"arm": None, "label": None}),
]


@pytest.mark.parametrize("wrong", NO_ACTIONS, ids=str)
def test_what_is_no_action_is_not_handed_on(wrong):
    session = scripted(said(ACTION | wrong))[0].session("s")

    with pytest.raises(BadAnswerError):
        session.act()
    assert session.act(fallback="hat").is_fallback


@pytest.mark.parametrize(("number", "distinct", "fits"), [(0, True, 0), (1, False, 0), (1, True, 1), (2, False, 0)])
def test_as_many_actions_are_answered_as_were_asked_for(number, distinct, fits):
    session = scripted(said({"actions": [ACTION] * number}))[0].session("s")

    shown = session.acts(2, distinct=distinct, fallback=["hat", "scarf"])
    assert [action.is_fallback for action in shown] == ([False] if fits else [True, True])


COUNTS, PLACES = ("applied", "duplicates", "surplus", "voided", "slot"), ([-1], [0, 2], [10**30], {"0": 1}, "01", 1)
NO_SETTLEMENTS = [
    *(*NO_JSON, AWAY, BUSY, SystemExit(), KeyboardInterrupt(), MemoryError(), KeyError("x")),
    *(said(given) for given in ({}, {"applied": 2}, {"duplicates": 2})),
    *(said(SETTLED | {"applied": 2, name: wrong}) for name in COUNTS for wrong in ("2", None, [2], -1, 7.0, True)),
    *(said(SETTLED | {"applied": count}) for count in (0, 1, 3)),
    *(said({"code": "x", "indexes": wrong}, 422) for wrong in (["0"], [True], [0.0], [None], *PLACES)),
    *(
        said({"code": "x", "errors": wrong}, 422)
        for wrong in ("loss", ["loss"], [None], [{"field": []}], {"field": "loss"}, 1)
    ),
    *(httpx.Response(status, text="<html>") for status in (301, 400, 401, 403, 404, 409, 418, 422)),
    *(httpx.Response(307, headers={"Location": "http://[bad"}), said({"detail": "Not Found", "code": None}, 404)),
]


@pytest.mark.parametrize("failure", NO_SETTLEMENTS)
def test_a_batch_is_sent_with_the_same_bytes_and_key_until_the_service_settles_it(failure, dropped):
    bandits, script = scripted(*[failure] * 5, settled, on_error=dropped.append, reports=LATER)
    for label in ("hat", "scarf"):
        bandits.session("s").report(label, loss=1)
    bandits.close()

    assert (bandits.reports.applied, bandits.reports.waiting, dropped) == (2, 0, [])
    assert len({(request.content, request.headers["Idempotency-Key"]) for request in script.requests}) == 1


NEVER = ("soon", "-1", "nan", "Fri, 31 Dec 99999 23:59:59 GMT", "1 Jan 2100 00:00:00 +99999999999")
WAITS = dict.fromkeys(NEVER, 0) | dict.fromkeys(("3600", "9" * 400, "Fri, 31 Dec 2100 23:59:59 GMT"), 60)


@pytest.mark.parametrize(("text", "seconds"), WAITS.items())
def test_retry_after_is_waited_for_a_minute_at_most(text, seconds):
    bandits, _ = scripted(problem(503, "overloaded", {"Retry-After": text}), max_retries=0)

    assert bandits.session("s").act(fallback="hat").error.retry_after == seconds


BROKEN = httpx.ReadTimeout(""), httpx.ReadError(""), httpx.ConnectError("[SSL: CERTIFICATE_VERIFY_FAILED]")
REFUSALS = problem(401, "unauthorized"), problem(503, "overloaded"), httpx.Response(503, text="<html>")
START = "start a service with"
ADVICE = (START, "in time", "the connection broke", "verify=")
ADVICE += ("; give api_key=, or set DELAYED_BANDITS_API_KEY", "the service runs", "proxies")


@pytest.mark.parametrize(("failure", "advice"), list(zip((AWAY, *BROKEN, *REFUSALS), ADVICE, strict=True)))
def test_the_advice_fits_the_failure_and_passes_from_process_to_process(failure, advice):
    error = scripted(failure, max_retries=0)[0].session("s").act(fallback="hat").error
    again = pickle.loads(pickle.dumps(error))

    assert advice in str(error)
    assert (START in str(error)) == (advice == START)
    assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))


NO_VIEWS = [{"learner": wrong} for wrong in (None, [], "dexp3", {"arms": -1}, {"arms": [[]]})]
NO_VIEWS += [{"goals": wrong} for wrong in ("x", {"click": {}}, {"click": 1}, {"click": {"value": "x"}})]


@pytest.mark.parametrize("wrong", NO_VIEWS, ids=str)
def test_what_is_no_view_is_not_handed_on(wrong):
    with pytest.raises(BadAnswerError):
        scripted(said(VIEW | wrong))[0].session("s").view()


def test_a_page_that_leads_to_itself_ends_a_list():
    bandits, script = scripted(said({"sessions": [], "next_cursor": "c"}))

    with pytest.raises(BadAnswerError, match="leads to itself"):
        list(bandits.sessions.list())
    assert len(script.requests) == 2
