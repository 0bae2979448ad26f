from __future__ import annotations

import numpy as np
import pytest

from loadtest.replay import delays
from loadtest.replay.click_stream import ClickStream
from loadtest.replay.click_worlds import jester_clicks
from loadtest.replay.jester import Ratings


def test_a_rating_above_five_is_a_click_and_costs_nothing() -> None:
    world = jester_clicks(Ratings(np.array([[5.0, 5.01], [np.nan, -10.0]]), []))

    assert world.posted[0].tolist() == [0.0, 1.0]
    assert world.losses[0].tolist() == [1.0, 0.0]
    assert world.session_fields() == {"loss_range": [1.0, 0.0], "normalize_losses": True}


def test_click_delays_have_their_median_and_a_heavy_tail() -> None:
    """Of 40,000 delays: the standard error of the median's logarithm is .01, of the tail's share .0008."""
    seconds = delays.log_normal(40_000, 30.0, 1.5, 5)

    assert np.log(np.median(seconds) / 30) == pytest.approx(0, abs=0.04)
    assert (seconds > 600).mean() == pytest.approx(0.0229, abs=0.0032)
    assert np.array_equal(seconds, delays.log_normal(40_000, 30.0, 1.5, 5))


def test_speed_divides_windows_and_delays_and_nothing_else() -> None:
    slow, fast = ClickStream(), ClickStream(speed=600.0)

    assert fast.session_fields() == {"expiry": {"after_seconds": 1.0, "default_loss": 0.0}}
    assert fast.click_delays(50) == pytest.approx(slow.click_delays(50) / 600)
    assert (slow.slots_per_second, fast.slots_per_second) == (0.5, 300.0)
    assert fast.settled_after(1000).tolist() == slow.settled_after(1000).tolist()


def test_learners_that_are_told_are_told_the_window() -> None:
    """600 s and 1/64 of it more, at one impression every 2 s."""
    late = ClickStream().settled_after(1000)

    assert late.max() == 305
    assert late[-3:].tolist() == [2, 1, 0]
