"""Posted losses are checked against their range and mapped onto [0, 1]."""

from __future__ import annotations

import pytest

from service.engine.ledger import LossRange


@pytest.mark.parametrize(
    ("best", "worst", "loss", "learned"),
    [
        (0.0, 1.0, 0.0, 0.0),
        (0.0, 1.0, 1.0, 1.0),
        (0.0, 1.0, 0.25, 0.25),
        (10.0, -10.0, 10, 0.0),
        (10.0, -10.0, -10, 1.0),
        (10.0, -10.0, 0, 0.5),
        (1.0, 0.0, 1, 0.0),
        (1.0, 0.0, 0, 1.0),
        (1.0, 5.0, 4, 0.75),
    ],
)
def test_losses_are_mapped_from_best_to_worst(best: float, worst: float, loss: float, learned: float) -> None:
    assert LossRange(best, worst).learned(loss) == learned


@pytest.mark.parametrize("loss", [-0.1, -1e-12, 1.0000000000000002, 1.0001, 5, 99, -10, float("nan"), float("inf")])
def test_losses_outside_the_range_are_refused_with_the_range(loss: float) -> None:
    with pytest.raises(ValueError, match=r"\[0\.0, 1\.0\]"):
        LossRange().learned(loss)


@pytest.mark.parametrize("rating", [10.0000001, -10.5, 11, -99])
def test_ratings_off_the_scale_are_refused(rating: float) -> None:
    with pytest.raises(ValueError, match=r"\[-10\.0, 10\.0\]"):
        LossRange(10.0, -10.0).learned(rating)


def test_raw_losses_pass_as_they_are_but_never_below_0() -> None:
    raw = LossRange(0.0, 2.0, normalize=False)
    assert raw.learned(1.75) == 1.75
    with pytest.raises(ValueError, match=r"must be >= 0"):
        LossRange(-1.0, 2.0, normalize=False).learned(-0.5)
    with pytest.raises(ValueError, match=r"\[0\.0, 2\.0\]"):
        raw.learned(2.5)
