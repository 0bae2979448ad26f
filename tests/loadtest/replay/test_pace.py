from __future__ import annotations

import numpy as np
import pytest

from loadtest.replay.pace import Pace
from loadtest.replay.simulated_time import SimulatedTime


def play(pace: Pace, time: SimulatedTime, durations: list[float]) -> list[float]:
    for t, seconds in enumerate(durations, start=1):
        pace.begin(t)
        time.sleep(seconds)
        pace.end()
    return pace.seconds.tolist()


def test_as_fast_as_it_goes_a_slot_is_timed_from_its_start() -> None:
    time = SimulatedTime(100.0)
    assert play(Pace(None, time.now, time.sleep), time, [0.5, 2.0, 0.5]) == [0.5, 2.0, 0.5]


def test_at_a_fixed_rate_slots_start_on_time() -> None:
    time = SimulatedTime(100.0)
    assert play(Pace(4.0, time.now, time.sleep), time, [0.125, 0.125, 0.125]) == [0.125] * 3
    assert time.now() == 100.625


def test_a_stall_shows_in_every_slot_it_held_up() -> None:
    """Ten slots a second, one of them stalled for two seconds: p99 is near two seconds, as users would feel it."""
    time = SimulatedTime(100.0)
    seconds = play(Pace(10.0, time.now, time.sleep), time, [0.01] * 50 + [2.01] + [0.01] * 49)

    assert np.percentile(seconds, 99) == pytest.approx(2.0, abs=0.1)
    assert sum(waited > 0.2 for waited in seconds) == 21
