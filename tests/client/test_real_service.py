"""Clients of real processes: answers as in this process, and nothing lost or counted twice when they die."""

import asyncio
import os
import re
import signal
import threading
import traceback
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import pytest

from service.client import AsyncBandits, Bandits, BanditsError, ClosedError, NoAnswerError, ReportRules
from service.testing import LocalBandits
from tests.client.conftest import CLICKS
from tests.support.running import RunningService
from tests.support.waiting import wait_until

VOLATILE = {"version", "created_at", "last_act_at", "last_event_at"}
SPECIFICATIONS = {
    "clicks": CLICKS,
    "window": CLICKS | {"expiry": {"after_seconds": 3600, "default_loss": 0}},
    "points": {
        "learner": {"kind": "dbgd", "dim": 2, "feasible_set": {"kind": "box", "lower": [-1, -1], "upper": [1, 1]}},
        "seed": 5,
    },
}


def played(bandits, name):
    """What a session says when it is called in a certain way."""
    session = bandits.sessions.create(f"equal-{name}", **SPECIFICATIONS[name])
    said = []
    for number in range(40):
        action = session.act(idempotency_key=f"{name}-{number}")
        outcome = {"losses": [0.1, 0.2, 0.3]} if action.x else {"loss": number % 2}
        said += [action, session.feedback(action, **outcome)]
    said += session.acts(5, idempotency_key=f"{name}-last")
    view = session.view().fields
    return said, {field: view[field] for field in view.keys() - VOLATILE}


@pytest.mark.processes
@pytest.mark.parametrize("name", SPECIFICATIONS)
def test_the_service_in_this_process_says_what_a_real_one_says(service, bandits, name):
    with Bandits(service.url, timeout=30) as real:
        assert played(real, name) == played(bandits, name)


@pytest.mark.slow
def test_a_key_that_http_can_not_carry_is_an_error_at_once(service):
    with Bandits(service.url) as bandits, pytest.raises(BanditsError) as raised:
        bandits.session("s").act(idempotency_key="two\nlines")
    assert not isinstance(raised.value, NoAnswerError)


def test_no_answer_is_shown_as_one_error_that_names_the_reason():
    with Bandits("http://127.0.0.1:9", timeout=1) as bandits, pytest.raises(NoAnswerError) as raised:
        bandits.session("s").act()
    shown = traceback.format_exception(raised.value)

    assert sum(part.startswith("Traceback") for part in shown) == 1
    assert re.search(r"NoAnswerError: POST http://127.0.0.1:9/v1/sessions/s/act: ConnectError: .+$", shown[-1])
    assert "start a service with `delayed-bandits serve`, or name its address with url=" in shown[-1]


async def test_no_answer_is_one_error_in_an_awaited_call_too():
    async with AsyncBandits("http://127.0.0.1:9", timeout=1) as bandits:
        with pytest.raises(NoAnswerError) as raised:
            await bandits.session("s").act()

    assert "".join(traceback.format_exception(raised.value)).count("Traceback") == 1


@pytest.mark.processes
def test_an_awaited_client_serves_one_event_loop_after_the_other(service):
    bandits = AsyncBandits(service.url, timeout=30)
    session = asyncio.run(bandits.sessions.create("loops", **CLICKS))

    assert [asyncio.run(session.act()).slot for _ in range(3)] == [1, 2, 3]
    with ThreadPoolExecutor(3) as pool:
        assert sorted(pool.map(lambda _: asyncio.run(session.act()).slot, range(3))) == [4, 5, 6]
    asyncio.run(bandits.close())
    with pytest.raises(ClosedError):
        asyncio.run(session.act())


class Visitors:
    """Threads that act and report until they are told to stop."""

    def __init__(self, session, threads=4):
        self.counts = {"real": 0, "fallback": 0}
        self._session, self._over, self._lock = session, threading.Event(), threading.Lock()
        self._pool = ThreadPoolExecutor(threads)
        self._visits = [self._pool.submit(self._visit) for _ in range(threads)]

    def _visit(self):
        while not self._over.is_set():
            action = self._session.act(fallback="hat")
            assert self._session.report(action, loss=0) is not action.is_fallback
            with self._lock:
                self.counts["fallback" if action.is_fallback else "real"] += 1

    def more(self, what="real", number=50):
        """Wait until there were so many more actions of a kind."""
        wanted = self.counts[what] + number
        wait_until(lambda: self.counts[what] >= wanted or any(visit.done() for visit in self._visits))

    def stop(self):
        self._over.set()
        for visit in self._visits:
            visit.result()
        self._pool.shutdown()


@pytest.mark.processes
@pytest.mark.timeout(300)
def test_what_is_acknowledged_is_settled_when_processes_die(tmp_path):
    rules = ReportRules(interval=0.01, max_waiting=1_000_000, close_timeout=30)
    with RunningService(tmp_path) as first:
        first.wait_ready()
        port = str(urlsplit(first.url).port)
        bandits = Bandits(first.url, timeout=1.0, reports=rules)
        shop = bandits.sessions.ensure("shop", **CLICKS)
        visitors = Visitors(shop)
        for _ in range(2):
            visitors.more()
            for worker in first.workers():
                os.kill(worker, signal.SIGKILL)
        visitors.more()
        first.stop(signal.SIGKILL)
        visitors.more("fallback", 5)
    with RunningService(tmp_path, "--port", port) as second:
        second.wait_ready()
        visitors.more()
        visitors.stop()
        assert bandits.flush(30)
        view, reports = shop.view(), bandits.reports
        bandits.close()

    assert reports.applied == view.feedbacks == visitors.counts["real"]
    assert reports.fallbacks == visitors.counts["fallback"] >= 5
    assert (reports.duplicates, reports.surplus, reports.dropped, reports.waiting) == (0, 0, 0, 0)
    assert view.slot == view.feedbacks + view.outstanding


def test_an_outage_in_this_process_is_one_for_clients_of_it(bandits):
    shop = bandits.sessions.create("shop", **CLICKS | {"expiry": {"after_seconds": 60, "default_loss": 0}})
    shown = shop.act()
    with bandits.outage():
        assert shop.act(fallback="hat").is_fallback
        assert shop.report(shown, loss=1)
        with pytest.raises(NoAnswerError):
            shop.view()
    assert bandits.flush(5)
    shop.act()
    bandits.advance(61)

    view = shop.view()
    assert (view.slot, view.feedbacks, view.expired, view.outstanding) == (2, 1, 1, 0)


def test_the_environment_does_not_reach_a_service_in_this_process(monkeypatch):
    monkeypatch.setenv("BANDIT_MAX_ARMS_CENTRED", "2")
    monkeypatch.setenv("BANDIT_API_KEYS", "secret")
    with LocalBandits() as bandits:
        assert bandits.sessions.ensure("shop", **CLICKS).act().slot == 1


def test_two_services_in_one_process_know_nothing_of_each_other():
    with LocalBandits() as one, LocalBandits({"max_arms_centred": 2}) as other:
        one.sessions.create("shop", **CLICKS)

        assert list(other.sessions.list()) == []
        with pytest.raises(BanditsError):
            other.sessions.create("shop", **CLICKS)
