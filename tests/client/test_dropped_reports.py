"""Reports that are dropped: which ones, when, and how the program is told."""

import pytest

from service.client import ClosedError, NoAnswerError, QueueFullError, ReportRules, UnknownSessionError
from tests.client.conftest import AWAY, Gate, problem, scripted, settled
from tests.support.waiting import SECONDS, wait_until

pytestmark = pytest.mark.usefixtures("short_pauses")


def test_reports_of_an_unknown_session_are_dropped(dropped):
    bandits, _ = scripted(problem(404, "unknown_session"), on_error=dropped.append)
    bandits.session("s").report("hat", loss=1)
    bandits.close()

    assert isinstance(dropped[0].error, UnknownSessionError)


def test_a_batch_that_fails_for_too_long_is_dropped(dropped):
    bandits, _ = scripted(AWAY, on_error=dropped.append, reports=ReportRules(interval=0.0, give_up_after=0.02))
    bandits.session("s").report("hat", loss=1)

    assert wait_until(lambda: dropped)
    assert isinstance(dropped[0].error, NoAnswerError)
    bandits.close()


def test_the_queue_is_bounded_and_reporting_never_waits(dropped):
    gate = Gate()
    bandits, _ = scripted(gate, on_error=dropped.append, reports=ReportRules(interval=0.0, max_waiting=2))
    session = bandits.session("s")
    accepted = [session.report("hat", loss=1) for _ in range(4)]
    gate.opened.set()
    bandits.close()

    assert accepted == [True, True, False, False]
    assert {type(each.error) for each in dropped} == {QueueFullError}
    assert (bandits.reports.applied, bandits.reports.dropped) == (2, 2)


def test_closing_waits_so_long_and_tells_what_was_not_sent(dropped):
    rules = ReportRules(interval=0.0, close_timeout=0.05)
    bandits, _ = scripted(AWAY, on_error=dropped.append, reports=rules)
    bandits.session("s").report("hat", loss=1, event_id="click-1")
    bandits.close()

    assert [event["event_id"] for event in dropped[0].events] == ["click-1"]
    assert isinstance(dropped[0].error, ClosedError)
    assert not bandits.session("s").report("hat", loss=1)
    assert (bandits.reports.dropped, bandits.reports.waiting) == (2, 0)
    bandits.close()


def test_an_error_of_on_error_stops_nothing(caplog):
    def fail(_):
        raise RuntimeError("page")

    bandits, _ = scripted(problem(404, "unknown_session"), problem(404, "unknown_session"), settled, on_error=fail)
    for _ in range(3):
        bandits.session("s").report("hat", loss=1)
        bandits.flush(SECONDS)
    bandits.close()

    assert (bandits.reports.applied, bandits.reports.dropped) == (1, 2)
    assert "on_error failed" in caplog.text


def test_dropped_reports_are_logged_by_default(caplog):
    bandits, _ = scripted(problem(404, "unknown_session"))
    bandits.session("s").report("hat", loss=1)
    bandits.close()

    assert "session s: 1 reports dropped: 404 unknown_session" in caplog.text
