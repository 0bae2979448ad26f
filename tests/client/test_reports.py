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
        return problem(500, "state_corrupt") if "/bad/" in request.url.path else settled(request)

    bandits, _ = scripted(answer, reports=client.ReportRules(interval=0.0, close_timeout=0.1))
    bandits.session("bad").report("hat", loss=1)
    for _ in range(10):
        bandits.session("good").report("hat", loss=1)
        assert wait_until(lambda: bandits.reports.waiting == 1)
    bandits.close()

    assert (bandits.reports.applied, bandits.reports.dropped) == (10, 1)


def test_wrong_events_are_dropped_and_the_others_are_sent(dropped):
    bandits, script = scripted(
        problem(422, "invalid_request", indexes=[0, 2]), settled, on_error=dropped.append, reports=LATER
    )
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
    bandits, _ = scripted(
        AWAY, on_error=dropped.append, reports=client.ReportRules(interval=0.0, give_up_after=0.02)
    )
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
    bandits.close()

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
    assert "on_error failed" in caplog.text


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
