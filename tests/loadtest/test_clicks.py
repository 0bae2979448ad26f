"""Replays of clicks: what is posted when, what expires, and the same numbers over HTTP at the same times."""

from dataclasses import replace

import httpx
import numpy as np
import pytest

from loadtest.client import Client
from loadtest.replay.jester import Ratings
from loadtest.replay.replay import ClickReplay
from loadtest.replay.report import click_facts
from loadtest.replay.session import (
    ClickStream,
    HttpDriver,
    InProcessDriver,
    RateChoice,
    SimulatedTime,
    plan_session,
)
from loadtest.replay.worlds import jester_clicks, log_normal_delays
from service.testing import LocalBandits
from tests.support import vectors

STREAM = ClickStream(window=40.0, interval=1.0, delay_median=10.0)
KINDS = vectors.over_arms()


def world(slots=300, n_arms=6):
    """Arm k is clicked by about (k+1)/20 of the visitors."""
    ratings = np.random.default_rng(8).uniform(-10, 10, (slots, 100))
    ratings[:, :n_arms] += np.linspace(-4, 2, n_arms)
    clicks = jester_clicks(Ratings(ratings.clip(-10, 10), []))
    return replace(clicks, posted=clicks.posted[:, :n_arms])


def plan_of(clicks, kind="centred_tsallis", stream=STREAM):
    return plan_session(clicks, kind, RateChoice.AUTO, 5, KINDS[kind], stream)


class Recorder(InProcessDriver):
    """Also keeps the events it was handed, and when."""

    def __init__(self, plan, clock):
        super().__init__(plan, clock.now)
        self.clock = clock
        self.events = []

    def deliver(self, events):
        self.events += [(self.clock.now(), event) for event in events]
        return super().deliver(events)


def replay(clicks, kind="centred_tsallis", **how):
    clock = SimulatedTime()
    driver = Recorder(plan_of(clicks, kind), clock)
    return ClickReplay(clicks, STREAM, driver, clock).run(**how), driver


@pytest.mark.parametrize("kind", KINDS)
def test_every_decision_is_settled_by_a_click_or_expires(kind):
    record, _ = replay(world(), kind)

    assert (record.problems(), record.counts.outstanding) == ([], 0)
    assert record.counts.feedbacks + record.counts.expired == 300
    assert record.counts.feedbacks == record.acknowledged == record.sent - record.surplus > 20


def test_only_clicks_are_posted_and_none_before_its_time():
    _, driver = replay(world())
    delays = STREAM.click_delays(300)

    assert {event.posted for _, event in driver.events} == {1.0}
    for time, event in driver.events:
        happened = event.slot - 1 + delays[event.slot - 1]
        assert happened <= time
        assert time < happened + STREAM.interval + 1e-6


def test_a_click_after_the_window_settles_a_younger_decision_or_is_skipped():
    """With one arm acted once a second there is always a younger one, until the stream has ended."""
    clicks = replace(world(), posted=np.ones((300, 1)))
    record, _ = replay(clicks)
    facts = click_facts(clicks, STREAM, record)

    assert record.problems() == []
    assert facts["late_clicks"] > 10
    assert record.surplus + len(record.pending) + record.acknowledged == facts["clicks"] == 300
    assert record.surplus < facts["late_clicks"]


class ServiceTime(SimulatedTime):
    """The clock of a service in this process."""

    def __init__(self, local, start):
        self._local, local._service.now = local, start

    def now(self):
        return self._local._service.now

    def sleep(self, seconds):
        self._local.advance(seconds)


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_stream_at_the_same_times_gives_the_same_numbers_over_http(kind):
    clicks = world(80)
    plan = plan_of(clicks, kind)
    with LocalBandits() as local, httpx.Client(transport=local._service, base_url="http://service") as http:
        clock = ServiceTime(local, start := local._service.now + 1)  # A service's time never runs backwards.
        over_http = ClickReplay(clicks, STREAM, HttpDriver(Client(http), plan, "clicks"), clock).run()
    clock = SimulatedTime(start)
    in_process = ClickReplay(clicks, STREAM, InProcessDriver(plan, clock.now), clock).run()

    assert over_http.problems() == in_process.problems() == []
    assert over_http.expected.tolist() == in_process.expected.tolist()
    assert (over_http.counts, over_http.digest) == (in_process.counts, in_process.digest)


def test_a_rating_above_five_is_a_click_and_costs_nothing():
    world = jester_clicks(Ratings(np.array([[5.0, 5.01], [np.nan, -10.0]]), []))

    assert (world.posted[0].tolist(), world.losses[0].tolist()) == ([0.0, 1.0], [1.0, 0.0])
    assert world.session_fields() == {"loss_range": [1.0, 0.0], "normalize_losses": True}


def test_click_delays_have_their_median_and_a_heavy_tail():
    """Of 40,000 delays: the standard error of the median's logarithm is .01, of the tail's share .0008."""
    seconds = log_normal_delays(40_000, 30.0, 1.5, 5)

    assert np.log(np.median(seconds) / 30) == pytest.approx(0, abs=0.04)
    assert (seconds > 600).mean() == pytest.approx(0.0229, abs=0.0032)
    assert np.array_equal(seconds, log_normal_delays(40_000, 30.0, 1.5, 5))


def test_speed_divides_windows_and_delays_and_nothing_else():
    slow, fast = ClickStream(), ClickStream(speed=600.0)

    assert fast.session_fields() == {"expiry": {"after_seconds": 1.0, "default_loss": 0.0}}
    assert fast.click_delays(50) == pytest.approx(slow.click_delays(50) / 600)
    assert (slow.slots_per_second, fast.slots_per_second) == (0.5, 300.0)
    assert fast.settled_after(1000).tolist() == slow.settled_after(1000).tolist()


def test_learners_that_are_told_are_told_the_window():
    """600 s and 1/64 of it more, at one impression every 2 s."""
    late = ClickStream().settled_after(1000)

    assert (late.max(), late[-3:].tolist()) == (305, [2, 1, 0])
