"""Handwritten digits as a bandit: which digit is this? Clicks say no more than that a guess was right, and late."""

from __future__ import annotations

from importlib import import_module
from typing import Any, cast

import numpy as np

from loadtest.errors import LoadTestError
from loadtest.replay.session import pass_time
from service.engine.arm_run import ArmRun
from service.engine.ledger import ArmFeedback
from service.engine.run import FeatureRun
from service.learners.base import FloatArray, IntArray
from service.models.specification import Specification
from service.models.stored import Stored

INK = 16
"""A pixel's darkest value."""
WINDOW, DELAY = 2000.0, 100.0
"""Of a click, in acts: the window, and the mean delay."""
SESSION: dict[str, Any] = {"learner": {"kind": "multiscale_tsallis", "n_arms": 10}, "reward_range": [0, 1]}
SESSION |= {"expiry": {"after_seconds": WINDOW, "default_reward": 0}}
FEATURES = {"pixels": {"kind": "vector", "length": 63, "range": [0, INK]}}
"""All but the first pixel, on which no digit has ink."""


def load_digits() -> tuple[FloatArray, IntArray]:
    """Load the 1,797 digits that scikit-learn ships with: pixels, shape (digits, 63), and which digits they are.

    Raises
    ------
    LoadTestError
        if scikit-learn is not installed.
    """
    try:
        pixels, digits = import_module("sklearn.datasets").load_digits(return_X_y=True)
    except ModuleNotFoundError as missing:
        text = f"{missing.name} is not installed; digits needs its extra: pip install '.[digits]'"
        raise LoadTestError(text) from missing
    return pixels[:, 1:], digits


def play(pixels: FloatArray, digits: IntArray, acts: int, seed: int, *, told: bool) -> FloatArray:
    """Guess one digit an act, second by second, and return whether each guess was right, shape (acts,).

    Parameters
    ----------
    pixels, digits : as ``load_digits`` returns them
    told : whether acts say the pixels
    """
    rng = np.random.default_rng(seed)
    fields = SESSION | {"seed": seed} | ({"features": FEATURES} if told else {})
    run = cast("ArmRun", Stored.of(Specification.model_validate(fields)).start())
    shown, delays = rng.integers(digits.size, size=acts), np.minimum(rng.exponential(DELAY, acts), WINDOW - 1)
    clicks: dict[int, list[ArmFeedback]] = {}
    right = np.zeros(acts)
    for t, (digit, delay) in enumerate(zip(shown, delays, strict=True)):
        pass_time(run, float(t))
        for click in clicks.pop(t, ()):
            run.settle(click)
        if isinstance(run, FeatureRun):
            action = run.act(encoded=run.encoder.encode({"pixels": pixels[digit].tolist()}))
        else:
            action = run.act()
        right[t] = action.arm == digits[digit]
        if right[t]:
            clicks.setdefault(t + 1 + int(delay), []).append(ArmFeedback(action.arm, 0.0, visit=action.visit))
    return right
