"""What the HTTP driver makes of answers it should never get. The peer is a scripted transport."""

from __future__ import annotations

from collections.abc import Callable

import httpx
import pytest

from loadtest.client import Client
from loadtest.errors import LoadTestError, ServiceError
from loadtest.replay.arm_worlds import mab_synthetic
from loadtest.replay.driver import Event
from loadtest.replay.http_driver import HttpDriver
from loadtest.replay.in_process_driver import InProcessDriver
from loadtest.replay.plan import Plan, RateChoice, plan_session

PLAN: Plan = plan_session(mab_synthetic(10), "dexp3", RateChoice.AUTO, 0, {})


def driver(**answers: object) -> HttpDriver:
    """A session that gives fixed answers, by the last part of the path; ``view`` to a GET."""

    def answer(request: httpx.Request) -> httpx.Response:
        name = "view" if request.method == "GET" else request.url.path.rpartition("/")[2]
        return httpx.Response(200, json=answers.get(name, {}))

    http = httpx.Client(transport=httpx.MockTransport(answer), base_url="http://service")
    return HttpDriver(Client(http), PLAN, "session")


@pytest.mark.parametrize(
    ("answers", "call", "message"),
    [
        ({"act": {"slot": 1}}, lambda d: d.act(), "act: .* not understood"),
        ({"act": [1]}, lambda d: d.act(), "act: .* not understood"),
        ({"view": {"slot": 1}}, lambda d: d.look(1), "view: .* not understood"),
        ({"view": {"slot": 2}}, lambda d: d.look(1), "someone else"),
        ({"view": {"slot": 1, "feedbacks": "many", "outstanding": 0}}, lambda d: d.counts(), "not understood"),
        ({"feedbacks": {"applied": 1}}, lambda d: d.deliver([Event(1, 0, 0.5)]), "not understood"),
        ({"feedbacks": {"applied": 0, "duplicates": 0}}, lambda d: d.deliver([Event(1, 0, 0.5)]), "0 acknowledged"),
    ],
)
def test_an_answer_that_makes_no_sense_is_the_services_fault(
    answers: dict[str, object], call: Callable[[HttpDriver], object], message: str
) -> None:
    with pytest.raises(ServiceError, match=message):
        call(driver(**answers))


def test_duplicates_are_acknowledged() -> None:
    receipt = driver(feedbacks={"applied": 1, "duplicates": 1}).deliver([Event(1, 0, 0.5), Event(2, 0, 0.5)])

    assert receipt == (2, 1, 0)


def test_in_process_an_event_without_a_decision_is_refused() -> None:
    with pytest.raises(LoadTestError, match="no outstanding decision"):
        InProcessDriver(PLAN).deliver([Event(1, 0, 0.5)])
