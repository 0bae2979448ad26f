"""Reports go in batches, in their order and with ids, until they are acknowledged."""

import httpx
import pytest

from service.client import InvalidRequestError, ReportRules
from tests.client.conftest import AWAY, LATER, events, labels, problem, scripted, settled
from tests.support.waiting import SECONDS, wait_until

pytestmark = pytest.mark.usefixtures("short_pauses")


def test_reports_go_in_batches_in_their_order_with_ids():
    bandits, script = scripted(settled, reports=LATER)
    session = bandits.session("s")
    assert all(session.report(f"arm{number}", loss=1) for number in range(7))
    bandits.close()

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
    bandits, script = scripted(settled, reports=ReportRules(interval=0.01))
    bandits.session("s").report("a", loss=1)

    wait_until(lambda: bandits.reports.applied == 1)
    bandits.close()
    assert len(script.requests) == 1


@pytest.mark.parametrize("failure", [AWAY, problem(503, "overloaded"), httpx.Response(200, text="<html>")])
def test_a_batch_is_sent_until_it_is_acknowledged_with_the_same_bytes_and_key(failure, dropped):
    bandits, script = scripted(*[failure] * 7, settled, on_error=dropped.append)
    bandits.session("s").report("hat", loss=1)
    bandits.close()

    assert (bandits.reports.applied, dropped) == (1, [])
    assert len({request.content for request in script.requests}) == 1
    assert len(set(script.keys)) == 1


def test_one_session_does_not_wait_for_another():
    def answer(request):
        return problem(500, "state_corrupt") if "/bad/" in request.url.path else settled(request)

    bandits, _ = scripted(answer, reports=ReportRules(interval=0.0, close_timeout=0.1))
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
    for label in ("a", "b", "c"):
        bandits.session("s").report(label, loss=1)
    bandits.close()

    assert [labels(request) for request in script.requests] == [["a", "b", "c"], ["b"]]
    assert [[event["label"] for event in each.events] for each in dropped] == [["a", "c"]]
    assert isinstance(dropped[0].error, InvalidRequestError)
    assert (dropped[0].session_id, bandits.reports.dropped, bandits.reports.applied) == ("s", 2, 1)


def test_a_batch_that_is_too_large_is_halved(dropped):
    def answer(request):
        return settled(request) if len(events(request)) < 2 else problem(413, "payload_too_large")

    bandits, script = scripted(answer, on_error=dropped.append, reports=LATER)
    for label in ("a", "b", "c"):
        bandits.session("s").report(label, loss=1)
    bandits.close()

    assert [labels(request) for request in script.requests] == [["a", "b", "c"], ["a"], ["b", "c"], ["b"], ["c"]]
    assert (bandits.reports.applied, dropped) == (3, [])


def test_a_batch_has_so_many_bytes_at_most():
    bandits, script = scripted(settled, reports=ReportRules(interval=1000.0, max_batch_bytes=100))
    for _ in range(3):
        bandits.session("s").report("a" * 60, loss=1)
    bandits.close()

    assert [len(events(request)) for request in script.requests] == [1, 1, 1]


def test_the_session_is_asked_by_which_word_it_is_voided():
    view = {"session_id": "s", "learner": {}, "version": "v", "reward_range": [0, 1]}
    view |= dict.fromkeys(("slot", "feedbacks", "outstanding", "expired", "removed"), 0)
    bandits, script = scripted(httpx.Response(200, json=view), settled)
    for _ in range(2):
        bandits.session("s").void("hat", event_id="i1")
        bandits.flush(SECONDS)
    bandits.close()

    assert [request.method for request in script.requests] == ["GET", "POST", "POST"]
    assert events(script.requests[-1]) == [{"event_id": "i1", "label": "hat", "reward": None}]
