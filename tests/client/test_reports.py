"""Reports: their batches, what is dropped and told, and the threads that send them."""

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from unittest.mock import Mock

import httpx
import pytest
from opentelemetry import trace

from service import client
from service.testing import LocalBandits
from tests.client.conftest import ACTED, AWAY, CLICKS, LATER, VIEW, Gate, events, labels, problem, scripted, settled
from tests.support.waiting import SECONDS, wait_until

pytestmark = pytest.mark.usefixtures("short_pauses")
UNKNOWN = problem(404, "unknown_session")


def report(bandits, *labels):
    """Report a loss of each arm, and close the client."""
    for label in labels:
        assert bandits.session("s").report(label, loss=1)
    bandits.close()


def test_reports_go_in_batches_in_their_order_with_ids():
    bandits, script = scripted(settled, reports=LATER)
    report(bandits, *(f"arm{number}" for number in range(7)))

    assert [label for request in script.requests for label in labels(request)] == [f"arm{n}" for n in range(7)]
    assert {len(events(request)) for request in script.requests} == {3, 1}
    assert len({event["event_id"] for request in script.requests for event in events(request)}) == 7
    assert {request.url.params["on_surplus"] for request in script.requests} == {"skip"}
    assert (bandits.reports.applied, bandits.reports.waiting) == (7, 0)


def test_a_report_waits_for_others_and_a_full_batch_does_not():
    bandits, script = scripted(settled, reports=LATER)
    for label in ("a", "b"):
        bandits.session("s").report(label, loss=1)
    assert bandits.reports.waiting == 2
    bandits.session("s").report("c", loss=1)
    wait_until(lambda: bandits.reports.applied == 3)

    assert [labels(request) for request in script.requests] == [["a", "b", "c"]]
    bandits.close()


def test_what_waits_is_sent_after_an_interval():
    bandits, script = scripted(settled, reports=client.ReportRules(interval=0.01))
    bandits.session("s").report("a", loss=1)

    wait_until(lambda: bandits.reports.applied == 1)
    bandits.close()
    assert len(script.requests) == 1


def test_one_session_does_not_wait_for_another():
    def answer(request):
        bad = [place for place, event in enumerate(events(request)) if event.get("session_id") == "bad"]
        if bad:
            done = len(events(request)) - len(bad)
            return problem(503, "store_unavailable", unavailable_lines=bad, applied=done, duplicates=0)
        return problem(500, "internal_error") if "/bad/" in request.url.path else settled(request)

    bandits, _ = scripted(answer, reports=client.ReportRules(interval=0.0, close_timeout=0.1))
    bandits.session("bad").report("hat", loss=1)
    for _ in range(10):
        bandits.session("good").report("hat", loss=1)
        assert wait_until(lambda: bandits.reports.waiting == 1)
    bandits.close()

    assert (bandits.reports.applied, bandits.reports.dropped) == (10, 1)


def test_wrong_events_are_dropped_and_the_others_are_sent(dropped):
    wrong = problem(422, "invalid_request", indexes=[0, 2])
    bandits, script = scripted(wrong, settled, on_error=dropped.append, reports=LATER)
    report(bandits, "a", "b", "c")

    assert [labels(request) for request in script.requests] == [["a", "b", "c"], ["b"]]
    assert [[event["label"] for event in each.events] for each in dropped] == [["a", "c"]]
    assert isinstance(dropped[0].error, client.InvalidRequestError)
    assert (dropped[0].session_id, bandits.reports.dropped, bandits.reports.applied) == ("s", 2, 1)


def test_a_batch_that_is_too_large_is_halved(dropped):
    def answer(request):
        return settled(request) if len(events(request)) < 2 else problem(413, "payload_too_large")

    bandits, script = scripted(answer, on_error=dropped.append, reports=LATER)
    report(bandits, "a", "b", "c")

    assert [labels(request) for request in script.requests] == [["a", "b", "c"], ["a"], ["b", "c"], ["b"], ["c"]]
    assert (bandits.reports.applied, dropped) == (3, [])


def test_a_batch_has_so_many_bytes_at_most():
    bandits, script = scripted(settled, reports=client.ReportRules(interval=1000.0, max_batch_bytes=100))
    report(bandits, *["a" * 60] * 3)

    assert [len(events(request)) for request in script.requests] == [1, 1, 1]


def test_the_session_is_asked_by_which_word_it_is_voided():
    bandits, script = scripted(httpx.Response(200, json=VIEW | {"reward_range": [0, 1]}), settled)
    for _ in range(2):
        bandits.session("s").void("hat", event_id="i1")
        bandits.flush(SECONDS)
    bandits.close()

    assert [request.method for request in script.requests] == ["GET", "POST", "POST"]
    assert events(script.requests[-1]) == [{"event_id": "i1", "label": "hat", "reward": None}]


def test_reports_of_an_unknown_session_are_dropped_and_logged_by_default(dropped, caplog):
    bandits, _ = scripted(UNKNOWN, on_error=dropped.append)
    report(bandits, "hat")
    bandits, _ = scripted(UNKNOWN)
    report(bandits, "hat")

    assert isinstance(dropped[0].error, client.UnknownSessionError)
    assert caplog.text.count("session s: 1 reports dropped: 404 unknown_session") == 1


def test_a_batch_that_fails_for_too_long_is_dropped(dropped):
    rules = client.ReportRules(interval=0.0, give_up_after=0.02)
    bandits, _ = scripted(AWAY, on_error=dropped.append, reports=rules)
    bandits.session("s").report("hat", loss=1)

    assert wait_until(lambda: dropped)
    assert isinstance(dropped[0].error, client.NoAnswerError)
    bandits.close()


def test_the_queue_is_bounded_and_reporting_never_waits(dropped):
    gate = Gate()
    bandits, _ = scripted(gate, on_error=dropped.append, reports=client.ReportRules(interval=0.0, max_waiting=2))
    session = bandits.session("s")
    accepted = [session.report("hat", loss=1) for _ in range(4)]
    gate.opened.set()
    bandits.close()

    assert accepted == [True, True, False, False]
    assert {type(each.error) for each in dropped} == {client.QueueFullError}
    assert (bandits.reports.applied, bandits.reports.dropped) == (2, 2)


def test_closing_waits_so_long_and_tells_what_was_not_sent(dropped):
    rules = client.ReportRules(interval=0.0, close_timeout=0.05)
    bandits, _ = scripted(AWAY, on_error=dropped.append, reports=rules)
    bandits.session("s").report("hat", loss=1, event_id="click-1")
    with ThreadPoolExecutor(1) as pool:
        flushed = pool.submit(bandits.flush)
        bandits.close()
        assert not flushed.result(SECONDS)

    assert [event["event_id"] for event in dropped[0].events] == ["click-1"]
    assert isinstance(dropped[0].error, client.ClosedError)
    assert not bandits.session("s").report("hat", loss=1)
    assert (bandits.reports.dropped, bandits.reports.waiting) == (2, 0)
    bandits.close()


@pytest.mark.parametrize("error", [RuntimeError, SystemExit, KeyboardInterrupt, GeneratorExit])
def test_an_error_of_on_error_stops_nothing(error, caplog):
    def fail(_):
        bandits.flush()
        raise error("page")

    bandits, _ = scripted(UNKNOWN, UNKNOWN, settled, on_error=fail)
    for _ in range(3):
        bandits.session("s").report("hat", loss=1)
        bandits.flush(SECONDS)
    bandits.close()

    assert (bandits.reports.applied, bandits.reports.dropped) == (1, 2)
    assert "on_error failed; session s: 1 reports dropped: 404" in caplog.text


def test_what_is_told_while_the_client_closes_is_told_once():
    opened, told = threading.Event(), []

    def tell(dropped):
        told.extend(event["label"] for event in dropped.events)
        opened.wait(SECONDS)

    refusal = problem(422, "invalid_request", indexes=[0])  # The first of each call, whichever go together.
    bandits, _ = scripted(refusal, on_error=tell, reports=client.ReportRules(interval=0.0, close_timeout=0.05))
    threading.Timer(0.2, opened.set).start()
    for label in ("a", "b"):
        bandits.session("s").report(label, loss=1)
    wait_until(lambda: told)
    bandits.close()

    assert sorted(told) == ["a", "b"]
    assert (bandits.reports.dropped, bandits.reports.waiting) == (2, 0)


def test_flush_returns_once_what_waits_is_answered():
    gate = Gate()
    bandits, _ = scripted(gate, reports=LATER)
    for _ in range(5):
        bandits.session("s").report("hat", loss=1)
    assert not bandits.flush(0.01)
    gate.opened.set()

    assert bandits.flush(SECONDS)
    assert bandits.reports.applied == 5
    assert bandits.flush()
    bandits.close()


def test_the_thread_lives_only_while_reports_wait():
    def is_running():
        return any(thread.name == "delayed-bandits-reports" for thread in threading.enumerate())

    bandits, _ = scripted(settled)
    for _ in range(2):
        bandits.session("s").report("hat", loss=1)
        bandits.flush(SECONDS)
        wait_until(lambda: not is_running())
    assert bandits.reports.applied == 2


def test_a_close_goes_on_if_the_handler_of_a_signal_exits(dropped, monkeypatch):
    bandits, _ = scripted(settled, on_error=dropped.append, reports=LATER)
    flush, signals = bandits._reporter.flush, [SystemExit, SystemExit]

    def interrupted(timeout):
        if signals:
            raise signals.pop()
        return flush(timeout)

    monkeypatch.setattr(bandits._reporter, "flush", interrupted)
    bandits.session("s").report("hat", loss=1)
    with pytest.raises(SystemExit):
        bandits.close()

    assert (bandits.reports.applied, dropped) == (1, [])


def test_a_thread_that_died_is_started_again(caplog, monkeypatch):
    bandits, _ = scripted(settled, reports=LATER)
    following, deaths = bandits._reporter._next, [SystemExit]

    def dying():
        if deaths:
            raise deaths.pop()
        return following()

    monkeypatch.setattr(bandits._reporter, "_next", dying)
    bandits.session("s").report("hat", loss=1)

    assert bandits.flush(SECONDS)
    assert bandits.reports.applied == 1
    assert wait_until(lambda: "another goes on" in caplog.text)


def test_a_report_that_no_thread_can_send_is_told(dropped, monkeypatch):
    bandits, _ = scripted(settled, on_error=dropped.append)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", Mock(side_effect=RuntimeError("can't start new thread")))
        assert not bandits.session("s").report("hat", loss=1)
    assert bandits.session("s").report("hat", loss=1)
    bandits.close()

    assert (bandits.reports.applied, len(dropped)) == (1, 1)


def test_reports_that_wait_for_a_minute_are_told(caplog, monkeypatch):
    monkeypatch.setattr("service.client.reporter.TOLD_EVERY", 0.01)
    bandits, _ = scripted(*[AWAY] * 12, settled)
    bandits.session("s").report("hat", loss=1)

    assert wait_until(lambda: "ConnectError: refused" in caplog.text)
    bandits.close()


def test_a_call_names_the_span_that_it_is_made_in(monkeypatch):
    bandits, script = scripted(ACTED, httpx.Response(200, json=VIEW), settled, ACTED)
    session = bandits.session("s")
    with trace.use_span(trace.NonRecordingSpan(trace.SpanContext(0xABC, 0xDEF, is_remote=False, trace_flags=1))):
        session.act()
        session.void("hat")
        bandits.close()
    client.Bandits("http://service", transport=script).session("s").act()
    monkeypatch.delitem(sys.modules, "opentelemetry.trace")
    client.Bandits("http://service", transport=script).session("s").act()

    parents = [request.headers.get("traceparent") for request in script.requests]
    assert parents == [f"00-{0xABC:032x}-{0xDEF:016x}-01", None, None, None, None]


def test_threads_may_share_a_client():
    with LocalBandits(reports=client.ReportRules(interval=0.005)) as bandits, ThreadPoolExecutor(8) as pool:
        shop = bandits.sessions.create("shop", **CLICKS)

        def visit(_):
            for _ in range(20):
                assert shop.report(shop.act(), loss=0)

        list(pool.map(visit, range(8)))
        assert bandits.flush(SECONDS)
        view = shop.view()

        assert (view.slot, view.feedbacks, view.outstanding) == (160, 160, 0)
        assert bandits.reports.applied == 160


ENDS = {"os.fork": 2, "sigterm": 1, "celery": 1, "gunicorn": 1, "fork": 5, "forkserver": 5, "spawn": 5}


@pytest.mark.slow
@pytest.mark.parametrize(("end", "reports"), ENDS.items())
def test_what_waits_is_sent_however_the_process_ends(service, end, reports):
    command = [sys.executable, "-m", "tests.support.reporting", service.url, end]
    with service.client() as http:
        http.post("/v1/sessions/s/acts", json={"count": 50})
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
        events = [{"arm": 0, "loss": 0.5, "event_id": name} for name in said]
        settled = http.post("/v1/sessions/s/feedbacks", json={"events": events}).json()

    assert (len(said), settled["duplicates"]) == (reports, reports)


# -- Reports of many sessions in one call.


def report_each(bandits, count, **outcome):
    for number in range(count):
        assert bandits.session(f"s{number}").report("hat", **(outcome or {"loss": 1}))


def test_reports_of_a_thousand_sessions_go_in_two_calls():
    bandits, script = scripted(settled, reports=client.ReportRules(interval=1000.0))
    report_each(bandits, 1000)
    bandits.flush(SECONDS)
    bandits.session("a").void("hat")
    bandits.session("b").report("hat", loss=1)
    bandits.close()

    assert [len(events(request)) for request in script.requests] == [500, 500, 2]
    assert {request.url.path for request in script.requests} == {"/v1/feedbacks"}
    sent = [event for request in script.requests[:2] for event in events(request)]
    assert {event["session_id"] for event in sent} == {f"s{number}" for number in range(1000)}
    assert events(script.requests[2])[0]["void"] is True
    assert (bandits.reports.applied, bandits.reports.waiting) == (1002, 0)


def test_a_service_without_the_call_gets_them_session_by_session():
    def answer(request):
        return problem(404, "not_found") if request.url.path == "/v1/feedbacks" else settled(request)

    bandits, script = scripted(answer, reports=LATER)
    report_each(bandits, 3)
    bandits.flush(SECONDS)
    report_each(bandits, 3)
    bandits.close()

    paths = [request.url.path for request in script.requests]
    assert (paths.count("/v1/feedbacks"), len(paths), bandits.reports.applied) == (1, 7, 6)


def test_wrong_reports_of_many_sessions_are_dropped_and_told(dropped):
    told = [
        {"index": 0, "code": "unknown_session", "message": "no such session"},
        {"index": 2, "code": "invalid_request", "field": "label", "message": "no such arm"},
    ]
    answer = {"applied": 1, "duplicates": 0, "invalid": 2, "errors": told, "invalid_indexes": [0, 2]}
    bandits, _ = scripted(httpx.Response(200, json=answer), on_error=dropped.append, reports=LATER)
    report_each(bandits, 3)
    bandits.close()

    assert [(each.session_id, type(each.error)) for each in dropped] == [
        ("s0", client.UnknownSessionError),
        ("s2", client.InvalidRequestError),
    ]
    assert "label: no such arm" in str(dropped[1].error)
    assert (bandits.reports.applied, bandits.reports.dropped, bandits.reports.waiting) == (1, 2, 0)


def test_a_report_of_one_session_that_was_skipped_as_wrong_is_told(dropped):
    answer = {"applied": 0, "duplicates": 0, "invalid": 1, "invalid_indexes": [0], "errors": [{"index": [0]}]}
    bandits, _ = scripted(httpx.Response(200, json=answer), on_error=dropped.append)
    report_each(bandits, 1)
    bandits.close()

    assert (len(dropped), bandits.reports.dropped, bandits.reports.waiting) == (1, 1, 0)


def test_only_the_sessions_that_were_not_settled_are_sent_again():
    partly = {"unavailable_lines": [1], "applied": 2, "duplicates": 0}
    bandits, script = scripted(*[problem(503, "store_unavailable", **partly)] * 3, settled, reports=LATER)
    report_each(bandits, 3)
    bandits.close()

    assert {request.url.path for request in script.requests} == {"/v1/feedbacks", "/v1/sessions/s1/feedbacks"}
    assert (bandits.reports.applied, bandits.reports.waiting) == (3, 0)


@pytest.mark.parametrize(
    ("status", "answer"),
    [
        (200, {"applied": 1, "duplicates": 0}),
        (200, {"applied": 2}),
        (200, {"applied": 1, "duplicates": 0, "invalid": 1}),
        (200, {"applied": 0, "duplicates": 0, "invalid": 2, "invalid_indexes": [0, 0]}),
        (200, {"applied": 1, "duplicates": 0, "unavailable_lines": [1]}),
        (503, {"applied": 0, "duplicates": 0, "unavailable_lines": [0, 0]}),
        (503, {"applied": 1, "duplicates": 0, "unavailable_lines": [-1]}),
        (503, {"applied": 3, "duplicates": 0, "unavailable_lines": [0]}),
        (503, {"applied": 1, "duplicates": 0, "unavailable_lines": [2]}),
    ],
)
def test_an_answer_to_many_that_is_none_fails_the_call(status, answer):
    bandits, script = scripted(*[httpx.Response(status, json=answer)] * 3, settled, reports=LATER)
    report_each(bandits, 2)
    bandits.close()

    assert len({request.content for request in script.requests}) == 1
    assert len(script.requests) > 3
    assert (bandits.reports.applied, bandits.reports.waiting) == (2, 0)


def test_many_sessions_of_a_real_service_are_settled(bandits, dropped):
    names = [f"s{number}" for number in range(20)]
    for name in names:
        bandits.sessions.create(name, **CLICKS).acts(2)
    for name in names:
        bandits.session(name).report("hat", loss=0.5)
        bandits.session(name).void("shoes")
    bandits.session("none").report("hat", loss=0.5)
    assert bandits.flush(SECONDS)

    counts = bandits.reports
    assert (counts.applied + counts.surplus + counts.voided, counts.dropped, counts.waiting) == (40, 1, 0)
    sent = [{"session_id": name, "label": "hat", "loss": 0.5} for name in names]
    settlement = bandits.feedbacks([*sent, {"session_id": "none", "arm": 0, "loss": 1}])
    assert settlement.invalid_indexes == (20,)
    assert settlement.errors[0]["code"] == "unknown_session"
