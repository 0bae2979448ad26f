"""Decisions that fall due at once are settled once, whoever works on them and whoever dies; nothing is timed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from loadtest.chaos.burst import CALLERS, Burst
from loadtest.chaos.other_session import OtherSession
from tests.support.programs import server_binary


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.skipif(sys.platform != "linux", reason="workers are found in /proc")
def test_a_burst_is_settled_once_by_two_workers_also_when_one_is_killed(tmp_path: Path) -> None:
    server_binary()
    asked = {"--acts": 10_000, "--window": 6, "--quiet-seconds": 1, "--rounds": 1, "--kills": 1, "--out": tmp_path}
    words = [str(word) for pair in asked.items() for word in pair]
    done = subprocess.run(
        [sys.executable, "-m", "loadtest", "burst", *words], capture_output=True, text=True, timeout=110
    )

    assert done.returncode == 0, done.stdout + done.stderr
    quiet, killed = json.loads((tmp_path / "summary.json").read_text())
    for found in (quiet, killed):
        assert found["counts"] == {
            "slot": 10_000 + CALLERS,
            "feedbacks": 1000,
            "expired": 9000,
            "removed": 0,
            "outstanding": CALLERS,
        }
        assert 0 < found["bytes_stored"] < 2**20
        assert found["requests"] > 0
    assert (quiet["killed"], killed["killed"]) == (False, True)
    assert "a worker ended with -9" in (tmp_path / "service.log").read_text()


def test_calls_that_meet_the_burst_are_those_under_way_in_it() -> None:
    others = OtherSession("http://nowhere", "/")
    others.calls = [(0.0, 1.0), (1.5, 2.5), (2.2, 2.3), (4.0, 5.0)]

    assert others.milliseconds(2, 3) == pytest.approx([1000, 100])


def test_a_ratio_needs_a_quiet_time() -> None:
    assert Burst(1000, killed=False).ratio == 0
    assert Burst(1000, killed=False, quiet_p99=2, burst_p99=3).ratio == 1.5
