"""Attempts: which failures are tried again, with what, how often, and for how long."""

import json
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import httpx
import pytest

from service.client import (
    ApiError,
    AsyncBandits,
    AuthenticationError,
    BadAnswerError,
    Bandits,
    BanditsError,
    ClosedError,
    IdempotencyConflictError,
    InternalError,
    NoAnswerError,
    NoEligibleArmError,
    NotFoundError,
    PermissionDeniedError,
    UnavailableError,
    attempts,
)
from tests.client.conftest import ACTION, SETTLED, Script, problem, scripted

ACTED = httpx.Response(200, json=ACTION)
AWAY = httpx.ConnectError("refused")
BUSY = problem(503, "overloaded")


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch):
    monkeypatch.setattr(attempts, "FIRST_PAUSE", 0.001)


@pytest.mark.parametrize("failure", [AWAY, httpx.ReadError("reset"), BUSY, httpx.Response(502), problem(500, "x")])
def test_what_may_pass_is_tried_again_with_the_same_bytes_and_key(failure):
    bandits, script = scripted(failure, failure, ACTED)

    assert bandits.session("s").act(eligible=["shoes"]).label == "shoes"
    assert len(set(script.keys)) == 1
    assert {request.content for request in script.requests} == {b'{"eligible":["shoes"]}'}
    assert len(script.requests) == 3


def test_two_calls_have_two_keys():
    bandits, script = scripted(ACTED)
    session = bandits.session("s")
    first, second = session.act(), session.act()

    assert len(set(script.keys)) == 2
    assert first.event_id != second.event_id


def test_retries_end():
    bandits, script = scripted(BUSY, max_retries=1)

    with pytest.raises(UnavailableError):
        bandits.session("s").act()
    assert len(script.requests) == 2


def test_a_missing_key_is_told_with_where_to_give_it():
    bandits, _ = scripted(problem(401, "unauthorized"))

    with pytest.raises(
        AuthenticationError, match=r"^401 unauthorized: .*; give api_key=, or set DELAYED_BANDITS_API_KEY$"
    ):
        bandits.session("s").act()


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (401, "unauthorized", AuthenticationError),
        (403, "forbidden", PermissionDeniedError),
        (421, "foreign_host", PermissionDeniedError),
        (404, "not_found", NotFoundError),
        (409, "no_eligible_arm", NoEligibleArmError),
        (422, "idempotency_conflict", IdempotencyConflictError),
        (418, "new_code", ApiError),
    ],
)
def test_a_refusal_is_raised_at_once_by_its_code(status, code, kind):
    bandits, script = scripted(problem(status, code, {"X-Request-Id": "r1"}))

    with pytest.raises(kind, match=code) as raised:
        bandits.session("s").act()
    assert (raised.value.status, raised.value.code, raised.value.request_id) == (status, code, "r1")
    assert len(script.requests) == 1


def test_a_state_that_can_not_be_read_is_an_internal_error():
    bandits, _ = scripted(problem(500, "state_corrupt"), max_retries=0)

    with pytest.raises(InternalError):
        bandits.session("s").act()


@pytest.mark.parametrize(
    "answer", [httpx.Response(200, text="<html>"), httpx.Response(200, json=[]), httpx.Response(204)]
)
def test_answers_of_others_are_errors(answer):
    bandits, script = scripted(answer)

    with pytest.raises(BadAnswerError):
        bandits.session("s").act()
    assert len(script.requests) == 1


@pytest.mark.parametrize("text", ["7", "Fri, 31 Dec 2100 23:59:59 GMT"])
def test_who_is_asked_to_wait_beyond_the_time_gives_up_at_once(text):
    bandits, script = scripted(problem(503, "overloaded", {"Retry-After": text}))

    with pytest.raises(UnavailableError) as raised:
        bandits.session("s").act(timeout=5)
    assert raised.value.retry_after >= 7
    assert len(script.requests) == 1


def test_retry_after_is_waited_for(monkeypatch):
    waits = []
    monkeypatch.setattr("service.client.connection.time.sleep", waits.append)
    bandits, _ = scripted(problem(503, "overloaded", {"Retry-After": "1"}), ACTED)

    assert bandits.session("s").act().slot == 1
    assert waits == [1.0]


def test_pauses_grow_and_differ():
    pauses = [[attempts.backoff(failures) for _ in range(20)] for failures in (0, 3, 50)]

    assert max(pauses[0]) <= attempts.FIRST_PAUSE < min(pauses[1])
    assert max(pauses[2]) <= attempts.LONGEST_PAUSE
    assert len(set(pauses[1])) > 1


def test_a_deletion_that_an_earlier_attempt_did_is_a_success():
    bandits, _ = scripted(AWAY, problem(404, "unknown_session"))
    bandits.session("s").delete()

    bandits, _ = scripted(problem(404, "unknown_session"))
    with pytest.raises(NotFoundError):
        bandits.session("s").delete()


FAILURES = [
    AWAY,
    RuntimeError("Event loop is closed"),
    BUSY,
    problem(404, "unknown_session"),
    problem(401, "unauthorized"),
    httpx.Response(200, text="<html>"),
]


@pytest.mark.parametrize("failure", FAILURES)
def test_a_fallback_is_returned_in_place_of_every_error(failure):
    bandits, script = scripted(failure)
    session = bandits.session("s")
    action = session.act(fallback="hat", segment="de")

    assert (action.choice, action.is_fallback, action.segment) == ("hat", True, "de")
    assert isinstance(action.error, BanditsError)
    assert [each.choice for each in session.acts(2, fallback=["hat", "shoes", "belt"])] == ["hat", "shoes"]
    assert session.act(fallback=1).choice == 1
    assert session.act(fallback=[0.5, 0.25]).x == [0.5, 0.25]
    sent = len(script.requests)
    assert session.feedback(action, loss=1).fallbacks == 1
    assert not session.report(action, loss=1)
    assert not session.report("hat", loss=1, event_id=action.event_id)
    assert not session.void(action)
    assert (bandits.reports.fallbacks, len(script.requests)) == (3, sent)


def test_a_fallback_is_returned_for_what_can_not_be_asked():
    bandits, _ = scripted(ACTED)
    session = bandits.session("s")

    assert session.act(fallback="hat", eligible=[float("nan")]).is_fallback
    bandits.close()
    assert session.act(fallback="hat").is_fallback
    with pytest.raises(ClosedError):
        session.act()


def test_a_fallback_that_is_none_is_refused_while_all_is_well():
    bandits, _ = scripted(ACTED)

    with pytest.raises(TypeError):
        bandits.session("s").act(fallback=object())


@contextmanager
def slow_server(sent, every):
    """Sends ``sent`` at once and then a byte every so many seconds; ``every`` None: nothing more."""
    over = threading.Event()

    def serve():
        with listener:
            while not over.is_set():
                try:
                    connection, _ = listener.accept()
                except TimeoutError:
                    continue
                with connection:
                    connection.settimeout(5)
                    connection.recv(65536)
                    connection.sendall(sent)
                    while not over.wait(every or 5):
                        try:
                            connection.sendall(b" ")
                        except OSError:
                            break

    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(0.05)
    thread = threading.Thread(target=serve)
    thread.start()
    yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    over.set()
    thread.join()


def slow(*values):
    return pytest.param(*values, marks=pytest.mark.slow)


LINE = b"HTTP/1.1 200 OK\r\nX-Slow:"
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n"


@pytest.mark.parametrize(("sent", "every"), [slow(b"", None), (LINE, 0.05), (HEAD, 0.05), slow(HEAD, None)])
def test_a_call_ends_in_its_time_whatever_the_server_does(sent, every):
    with slow_server(sent, every) as url, Bandits(url, timeout=0.4, max_retries=1) as bandits:
        start = time.monotonic()
        action = bandits.session("s").act(fallback="hat")
        seconds = time.monotonic() - start

    assert isinstance(action.error, NoAnswerError)
    assert seconds < 0.8


def test_a_slow_answer_is_used_that_comes_well_within_the_time():
    answer = json.dumps(ACTION).encode()

    def serve():
        connection, _ = listener.accept()
        with connection:
            connection.recv(65536)
            assert not over.wait(1.2)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(answer) + answer)

    over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor(1) as pool:
        served = pool.submit(serve)
        with Bandits(f"http://127.0.0.1:{listener.getsockname()[1]}", timeout=2) as bandits:
            assert not bandits.session("s").act(fallback="hat").is_fallback
        served.result()


def test_a_call_ends_in_its_time_while_the_address_is_looked_up(monkeypatch):
    over, looked_up = threading.Event(), socket.getaddrinfo

    def getaddrinfo(*where, **options):
        over.wait(5)
        return looked_up(*where, **options)

    with slow_server(b"", None) as url, Bandits(url, timeout=0.2, max_retries=1) as bandits:
        monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
        start = time.monotonic()
        action = bandits.session("s").act(fallback="hat")
        seconds = time.monotonic() - start
        over.set()

    assert isinstance(action.error, NoAnswerError)
    assert seconds < 0.6


@pytest.mark.parametrize(("sent", "every"), [slow(b"", None), slow(HEAD, 0.05)])
async def test_an_awaited_call_ends_in_its_time_too(sent, every):
    with slow_server(sent, every) as url:
        async with AsyncBandits(url, timeout=0.4, max_retries=1) as bandits:
            start = time.monotonic()
            assert (await bandits.session("s").act(fallback="hat")).is_fallback
            assert time.monotonic() - start < 0.8


async def test_awaited_calls_are_tried_again_alike():
    script = Script(AWAY, BUSY, ACTED)
    bandits = AsyncBandits("http://service", transport=script, report_transport=Script(AWAY))

    assert (await bandits.session("s").act()).slot == 1
    assert len(set(script.keys)) == 1
    await bandits.close()
    with pytest.raises(ClosedError):
        await bandits.session("s").act()


def test_address_and_key_come_from_the_environment(monkeypatch):
    script = Script(httpx.Response(200, json=SETTLED))
    with pytest.raises(ValueError, match="DELAYED_BANDITS_URL"):
        Bandits()
    monkeypatch.setenv("DELAYED_BANDITS_URL", "http://service/prefix")
    monkeypatch.setenv("DELAYED_BANDITS_API_KEY", "secret")
    Bandits(transport=script).session("s").feedback("hat", loss=1)
    Bandits("http://other", api_key="other", transport=script).session("s").feedback("hat", loss=1)

    assert [str(each.url) for each in script.requests] == [
        "http://service/prefix/v1/sessions/s/feedbacks",
        "http://other/v1/sessions/s/feedbacks",
    ]
    assert [each.headers["Authorization"] for each in script.requests] == ["Bearer secret", "Bearer other"]
    assert json.loads(script.requests[0].content) == {"events": [{"label": "hat", "loss": 1}]}


@pytest.mark.parametrize(
    ("url", "options"),
    [
        ("localhost:8000", {}),
        ("ftp://service", {}),
        ("http://service?a=b", {}),
        ("http://service", {"timeout": 0}),
        ("http://service", {"max_retries": -1}),
        ("http://service", {"api_key": "two words"}),
    ],
)
def test_what_no_call_can_be_made_with_is_refused(url, options):
    with pytest.raises(ValueError, match=r"url|timeout|api_key"):
        Bandits(url, **options)


def test_the_api_key_is_not_printed():
    target = attempts.target_of("http://service", "secret", 1.0, 1, verify=True)

    assert "secret" not in repr(target)


def test_ensure_changes_the_options_that_are_named():
    view = {"session_id": "s", "learner": {"kind": "fixed", "arms": ["a"]}, "version": "v", "floor": 0.0}
    view |= dict.fromkeys(("slot", "feedbacks", "outstanding", "expired", "removed"), 0)
    view["expiry"] = {"after_seconds": 60.0, "default_loss": 0.0, "provisional": True}
    exists = problem(409, "session_exists", errors=[{"index": None, "field": "expiry", "message": ""}])
    bandits, script = scripted(exists, httpx.Response(200, json=view))
    expiry = {"after_seconds": 90, "default_loss": 0}
    bandits.sessions.ensure("s", learner=view["learner"], expiry=expiry, floor=0)

    assert [request.method for request in script.requests] == ["POST", "GET", "PATCH"]
    assert script.requests[-1].url.path == "/v1/sessions/s"
    assert json.loads(script.requests[-1].content) == {"expiry": expiry}
