"""The loop over slots: which event goes when, what is counted, how it ends."""

import csv
import json
import signal
import subprocess
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

from loadtest.commands import app
from loadtest.errors import LoadTestError
from loadtest.replay.replay import Pace, Replay
from loadtest.replay.report import build_report, write_report
from loadtest.replay.session import Counts, InProcessDriver, RateChoice, Receipt, SimulatedTime, plan_session
from loadtest.replay.worlds import ArmWorld, bco_synthetic, mab_synthetic, strict_delays, total_delay
from service.engine.ledger import LossRange
from tests.support.http import http_client
from tests.support.replays import plan
from tests.support.waiting import wait_until


def play(pace, time, durations):
    for t, seconds in enumerate(durations, start=1):
        pace.begin(t)
        time.sleep(seconds)
        pace.end()
    return pace.seconds.tolist()


def test_at_a_fixed_rate_slots_start_on_time():
    time = SimulatedTime(100.0)
    assert play(Pace(4.0, time.now, time.sleep), time, [0.125, 0.125, 0.125]) == [0.125] * 3
    assert time.now() == 100.625


def test_a_stall_shows_in_every_slot_it_held_up():
    """Ten slots a second, one of them stalled for two seconds: p99 is near two seconds, as users would feel it."""
    time = SimulatedTime(100.0)
    seconds = play(Pace(10.0, time.now, time.sleep), time, [0.01] * 50 + [2.01] + [0.01] * 49)

    assert np.percentile(seconds, 99) == pytest.approx(2.0, abs=0.1)
    assert sum(waited > 0.2 for waited in seconds) == 21


class Recorder(InProcessDriver):
    """Also keeps what it was asked, and may fail at one call."""

    def __init__(self, plan, fail_at=None):
        super().__init__(plan)
        self.calls: list[tuple[str, object]] = []
        self._fail_at = fail_at

    def act(self):
        action = super().act()
        self.calls.append(("act", action.slot))
        return action

    def deliver(self, events):
        self.calls.append(("feedbacks", [event.slot for event in events]))
        if len(self.calls) == self._fail_at:
            raise LoadTestError("no more")
        return super().deliver(events)


def replay(driver, slots, **how):
    return Replay(mab_synthetic().head(slots), strict_delays(2000), driver).run(**how)


def test_events_go_at_the_end_of_the_slot_they_are_due_in():
    """Delays 1 2 1 0 3 0 2: slot 4 gets its own loss and those of slots 2 and 3, in this order."""
    driver = Recorder(plan())
    replay(driver, 8)

    asked = [f"{what} {number}" for what, number in driver.calls]
    until_4 = ["act 1", "act 2", "feedbacks [1]", "act 3", "act 4", "feedbacks [2, 3, 4]"]
    until_8 = ["act 5", "act 6", "feedbacks [6]", "act 7", "act 8", "feedbacks [5]", "feedbacks [7, 8]"]
    assert asked == until_4 + until_8


@pytest.mark.parametrize("drain", [True, False])
def test_an_interrupted_replay_accounts_for_every_event(drain):
    """All delays are 500: of 700 slots 200 losses are back, and 500 are sent at the end or listed, oldest first."""
    driver = Recorder(plan())
    late = np.full(2000, 500)
    record = Replay(mab_synthetic(), late, driver).run(drain=drain, stopped=lambda: ("act", 700) in driver.calls)

    assert record.interrupted
    assert [event.slot for event in record.pending] == ([] if drain else list(range(201, 701)))
    assert record.sent == record.acknowledged + len(record.unanswered) == (700 if drain else 200)
    assert (record.counts, record.problems()) == (Counts(700, record.acknowledged, len(record.pending)), [])


def test_a_failure_keeps_what_was_counted_until_then():
    """The thirteenth call hands over slots 7 and 8, and fails."""
    record = replay(Recorder(plan(), fail_at=13), 8)

    assert (record.problems()[0], record.sent, record.acknowledged) == ("ended early: no more", 8, 6)
    assert [event.slot for event in record.unanswered] == [7, 8]


def test_an_event_that_was_not_settled_is_noticed():
    class Forgetful(Recorder):
        def deliver(self, events):
            super().deliver(events[1:])
            return Receipt(len(events), 0)

    problems = ["8 events acknowledged, 3 settled", "5 decisions outstanding, 0 events pending"]
    assert replay(Forgetful(plan()), 8).problems() == problems


def test_somebody_else_in_the_session_is_noticed():
    driver = InProcessDriver(plan())
    driver.act()

    assert "someone else" in replay(driver, 10).problems()[0]


def test_the_same_seed_gives_the_same_numbers_and_another_seed_others():
    first, again, other = (replay(InProcessDriver(plan(seed=seed)), 300) for seed in (5, 5, 6))

    assert np.array_equal(first.expected, again.expected)
    assert first.digest == again.digest
    assert first.digest != other.digest


@pytest.mark.slow
def test_the_command_reports_the_same_figures_both_ways(url, tmp_path):
    found = []
    for name, way in (("http", ["--url", url]), ("in_process", ["--in-process"])):
        folder = tmp_path / name
        result = CliRunner().invoke(app, ["replay", "synthetic", "--slots", "200", *way, "--out", str(folder)])
        assert result.exit_code == 0, result.output
        found.append(json.loads((folder / "summary.json").read_text()))

    over_http, in_process = found
    differing = {name for name in over_http if over_http[name] != in_process[name]}
    own = {"latency_ms", "requests", "requests_per_second", "seconds", "driver", "session_id", "url", "parameters"}
    assert differing <= own
    assert (tmp_path / "http" / "curve.csv").read_bytes() == (tmp_path / "in_process" / "curve.csv").read_bytes()
    assert over_http["acknowledged"] == over_http["settled"] == 200


@pytest.mark.processes
def test_an_interrupted_replay_reports_what_it_did(url, tmp_path):
    """SIGINT ends it after the slot it is in; what is due later is sent, and the exit code tells."""
    command = [sys.executable, "-m", "loadtest", "replay", "synthetic", "--url", url, "--out", str(tmp_path)]
    before = {session["session_id"] for session in sessions(url)}
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        wait_until(lambda: any(s["slot"] > 20 for s in sessions(url) if s["session_id"] not in before))
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130

    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["interrupted"]
    assert not summary["ok"]
    assert 20 < summary["slots"] < 2000
    assert summary["slots"] == summary["acknowledged"] == summary["settled"]


def sessions(url):
    with http_client(url) as http:
        return http.get("/v1/sessions").json()["sessions"]


def report(world, kind="dexp3", **how):
    plan = plan_session(world, kind, RateChoice.AUTO, 1, {})
    driver = InProcessDriver(plan)
    replaying = Replay(world, strict_delays(2000), driver)
    return build_report(world, plan, replaying.run(**how), driver.log, replaying.pace, {"rates": "anytime"})


def test_regret_by_hand():
    """Losses (0, 1) and (1/2, 1/2) at p = (1/2, 1/2) in both slots: no loss is known before slot 2 is drawn."""
    found = report(ArmWorld("hand", np.array([[0.0, 1.0], [0.5, 0.5]]), LossRange()))

    assert (found.regret.tolist(), found.baseline.tolist()) == ([0.25, 0.25], [0.25, 0.25])
    summary = found.summary
    assert (summary["regret_per_slot"], summary["uniform_regret_per_slot"]) == (0.25, 0.25)
    assert (summary["expected_mean_loss"], summary["uniform_mean_loss"]) == (0.5, 0.5)
    assert (summary["best_arm"], summary["best_action"], summary["best_mean_loss"]) == (0, "arm 1", 0.25)


def test_the_summary_says_what_was_played_and_what_became_of_it():
    summary = report(mab_synthetic().head(300)).summary

    assert summary["scenario"] == "mab_synthetic"
    assert (summary["learner"], summary["slots"], summary["seed"]) == ("dexp3", 300, 1)
    assert (summary["sent"], summary["acknowledged"], summary["settled"], summary["pending"]) == (300, 300, 300, 0)
    assert summary["total_delay"] == {"strict": int(strict_delays(300).sum()), "last": int(total_delay(300).last)}
    assert set(summary["latency_ms"]) == {"act", "view", "feedbacks", "slot"}
    assert list(summary["latency_ms"]["act"]) == ["p50", "p95", "p99", "max"]
    deliveries = {t + d for t, d in enumerate(strict_delays(2000)[:300], 1)} - {301, 302}
    assert summary["requests"] == 600 + len(deliveries) + 1
    assert summary["ok"]


def test_points_are_compared_with_standing_still():
    summary = report(bco_synthetic(), "dbgd").summary

    assert summary["best_arm"] is None
    assert "uniform_mean_loss" not in summary
    assert summary["still_mean_loss"] == 0.0
    assert summary["regret_per_slot"] < summary["still_regret_per_slot"]


@pytest.mark.parametrize("slots", [1, 2000])
def test_three_files_are_written(tmp_path, slots):
    found = report(mab_synthetic().head(slots))
    write_report(found, tmp_path / "deep" / "out")

    folder = tmp_path / "deep" / "out"
    assert json.loads((folder / "summary.json").read_text()) == found.summary
    with (folder / "curve.csv").open(newline="") as stream:
        header, *rows = csv.reader(stream)
    assert header == ["slot", "normalised_regret", "uniform_play"]
    assert [float(row[1]) for row in rows] == found.regret.tolist()
    assert (folder / "regret.png").read_bytes().startswith(b"\x89PNG")
