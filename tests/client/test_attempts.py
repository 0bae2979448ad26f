"""Attempts: which failures are tried again, with what, and how often; and what is shown where all fail."""

import json

import httpx
import numpy as np
import pytest

from service import client
from service.client import attempts
from tests.client.conftest import ACTED, AWAY, BUSY, Script, problem, scripted

pytestmark = pytest.mark.usefixtures("short_pauses")


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

    with pytest.raises(client.UnavailableError):
        bandits.session("s").act()
    assert len(script.requests) == 2


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (401, "unauthorized", client.AuthenticationError),
        (403, "forbidden", client.PermissionDeniedError),
        (421, "foreign_host", client.PermissionDeniedError),
        (404, "not_found", client.NotFoundError),
        (409, "no_eligible_arm", client.NoEligibleArmError),
        (422, "idempotency_conflict", client.IdempotencyConflictError),
        (418, "new_code", client.ApiError),
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

    with pytest.raises(client.InternalError):
        bandits.session("s").act()


def test_who_is_asked_to_wait_beyond_the_time_gives_up_at_once():
    bandits, script = scripted(problem(503, "overloaded", {"Retry-After": "7"}))

    with pytest.raises(client.UnavailableError):
        bandits.session("s").act(timeout=5)
    assert len(script.requests) == 1


def test_retry_after_is_waited_for(monkeypatch):
    waits = []
    monkeypatch.setattr("service.client.blocking.time.sleep", waits.append)
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
    with pytest.raises(client.NotFoundError):
        bandits.session("s").delete()


async def test_awaited_calls_are_tried_again_alike():
    script = Script(AWAY, BUSY, ACTED)
    bandits = client.AsyncBandits("http://service", transport=script, report_transport=Script(AWAY))

    assert (await bandits.session("s").act()).slot == 1
    assert len(set(script.keys)) == 1
    await bandits.close()
    with pytest.raises(client.ClosedError):
        await bandits.session("s").act()


FAILURES = [AWAY, RuntimeError("Event loop is closed"), BUSY, problem(404, "unknown_session")]
FAILURES += [problem(401, "unauthorized"), httpx.Response(200, text="<html>")]


@pytest.mark.parametrize("failure", FAILURES)
def test_a_fallback_is_returned_in_place_of_every_error(failure):
    bandits, script = scripted(failure)
    session = bandits.session("s")
    action = session.act(fallback="hat", segment="de")

    assert (action.choice, action.is_fallback, action.segment) == ("hat", True, "de")
    assert isinstance(action.error, client.BanditsError)
    assert [each.choice for each in session.acts(2, fallback=["hat", "shoes", "belt"])] == ["hat", "shoes"]
    assert (session.act(fallback=1).choice, session.act(fallback=[0.5, 0.25]).x) == (1, [0.5, 0.25])
    sent = len(script.requests)
    assert session.feedback(action, loss=1).fallbacks == 1
    assert not session.report(action, loss=1)
    assert not session.report("hat", loss=1, event_id=action.event_id)
    assert not session.void(action)
    assert (bandits.reports.fallbacks, len(script.requests)) == (3, sent)


def test_arms_may_be_named_by_any_iterable():
    bandits, script = scripted(ACTED)
    session = bandits.session("s")
    for arms in ({"shoes", "hat"}, {"hat": 1, "shoes": 2}.keys(), iter(["hat", "shoes"])):
        session.act(eligible=arms, fallback="hat")
    session.act(exclude=np.array([1, 2]))

    bodies = [json.loads(request.content) for request in script.requests]
    assert bodies == [*[{"eligible": ["hat", "shoes"]}] * 3, {"exclude": [1, 2]}]
    assert session.act(eligible=(1 // arm for arm in [0]), fallback="hat").is_fallback


def test_an_outage_is_one_line_a_minute(caplog, monkeypatch):
    bandits, _ = scripted(BUSY, max_retries=0)
    for _ in range(5):
        bandits.session("s").act(fallback="hat")
    assert len(caplog.messages) == 1
    monkeypatch.setattr("service.client.reporter.TOLD_EVERY", 0.0)
    bandits.session("s").acts(2, fallback=["hat", "scarf"])

    text = "session s: {} fallbacks shown since the last such line; 503 overloaded: "
    assert [line.startswith(text.format(number)) for line, number in zip(caplog.messages, (1, 6), strict=True)]


def test_a_fallback_is_returned_for_what_can_not_be_asked():
    bandits, _ = scripted(ACTED)
    session = bandits.session("s")

    assert session.act(fallback="hat", eligible=[float("nan")]).is_fallback
    bandits.close()
    assert session.act(fallback="hat").is_fallback
    with pytest.raises(client.ClosedError):
        session.act()


def test_a_fallback_that_is_none_is_refused_while_all_is_well():
    bandits, _ = scripted(ACTED)

    with pytest.raises(TypeError):
        bandits.session("s").act(fallback=object())
