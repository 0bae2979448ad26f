"""What the HTTP driver makes of answers it should never get. The peer is a scripted transport."""

import signal
from contextlib import ExitStack

import httpx
import pytest

from loadtest.client import Client
from loadtest.errors import LoadTestError, ServiceError
from loadtest.processes import free_port
from loadtest.replay.session import Event, HttpDriver, InProcessDriver, Plan, RateChoice, plan_session, plays_points
from loadtest.replay.worlds import bco_synthetic, mab_synthetic
from service.learners import REGISTRY
from tests.support.examples import some_quick
from tests.support.http import http_client
from tests.support.replays import SLOTS, assert_equal, both, play, rated_world
from tests.support.running import RunningService

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
def test_an_answer_that_makes_no_sense_is_the_services_fault(answers, call, message):
    with pytest.raises(ServiceError, match=message):
        call(driver(**answers))


def test_duplicates_are_acknowledged():
    receipt = driver(feedbacks={"applied": 1, "duplicates": 1}).deliver([Event(1, 0, 0.5), Event(2, 0, 0.5)])

    assert receipt == (2, 1, 0)


def test_in_process_an_event_without_a_decision_is_refused():
    with pytest.raises(LoadTestError, match="no outstanding decision"):
        InProcessDriver(PLAN).deliver([Event(1, 0, 0.5)])


@pytest.mark.parametrize("kind", some_quick(sorted(REGISTRY), {"centred_tsallis", "dbgd", "dexp3", "exp3"}))
def test_both_ways_give_the_same_numbers_to_the_last_bit(url, kind):
    world = (bco_synthetic if plays_points(kind) else mab_synthetic)(SLOTS)
    with http_client(url) as http:
        assert_equal(*both(world, kind, Client(http)))


@pytest.mark.processes
def test_a_killed_and_restarted_service_changes_nothing(tmp_path):
    """The embedded store keeps everything acknowledged; the client goes on with the same ids."""
    flags = ("--port", str(free_port()))
    with ExitStack() as stack:
        services = [stack.enter_context(RunningService(tmp_path, *flags))]
        services[0].wait_ready()

        def kill_and_restart(slot: int) -> None:
            if slot in (40, 90):
                services[-1].stop(signal.SIGKILL)
                services.append(stack.enter_context(RunningService(tmp_path, *flags)))

        with http_client(f"http://127.0.0.1:{flags[1]}") as http:
            client = Client(http)
            over_http, in_process = both(rated_world(SLOTS), "dexp3", client, advance=kill_and_restart)

    assert_equal(over_http, in_process)
    assert client.log.retries.total() >= 2


@pytest.mark.processes
def test_a_service_that_stays_away_ends_the_run_with_what_is_known(tmp_path):
    with RunningService(tmp_path, "--store-url", "memory://") as service, service.client() as http:
        client = Client(http, retry_seconds=0.1)
        world = rated_world(SLOTS)
        driver = HttpDriver(client, plan_session(world, "dexp3", RateChoice.AUTO, 1, {}), "away")
        record = play(world, driver, advance=lambda slot: slot == 50 and service.stop(signal.SIGKILL))

    assert record.played == 50
    assert "given up after 0.1 s" in record.problems()[0]
    assert record.problems()[1] == "the session's counts are unknown"
    assert record.sent == record.acknowledged + len(record.unanswered)
