"""Digits as arms: what acts that say the pixels gain."""

import sys

import numpy as np
import pytest

from loadtest.digits import load_digits, play
from loadtest.errors import LoadTestError


@pytest.mark.slow
def test_pixels_tell_which_digit_it_is():
    digits = np.arange(400) % 10
    pixels = np.random.default_rng(1).integers(17, size=(10, 63))[digits].astype(float)

    right, blind = (play(pixels, digits, 700, 1, told=told)[-200:].mean() for told in (True, False))

    assert right > 0.7 > 0.3 > blind


def test_the_set_is_that_of_scikit_learn(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(LoadTestError, match=r"sklearn.datasets is not installed; .*digits]"):
        load_digits()
    monkeypatch.undo()
    pixels, digits = pytest.importorskip("sklearn.datasets") and load_digits()
    assert (pixels.shape, pixels.max(), set(digits)) == ((1797, 63), 16, set(range(10)))
