"""What is outstanding falls when decisions expire, so that rates and pools recover."""

from __future__ import annotations

from typing import Any

import pytest

from loadtest.replay.session import pass_time
from service.engine.ledger import Expiry, Params
from service.engine.run import Run, start_run
from service.learners import REGISTRY

WINDOW = 16.0
SLOTS = 2000


def unanswered(kind: str, expiry: Expiry | None, **fields: Any) -> Run:
    """A slot a second, and no feedback."""
    run = start_run(Params(REGISTRY[kind].model_validate({"kind": kind, "n_arms": 4} | fields), 3, expiry=expiry))
    for t in range(SLOTS):
        pass_time(run, 1e6 + t)
        run.act()
    return run


@pytest.mark.parametrize("loss", [0.5, None])
@pytest.mark.parametrize(("kind", "fields"), [("dexp3", {}), ("centred_tsallis", {}), ("clw", {"max_delay": 17})])
def test_no_more_is_outstanding_than_the_window_holds(
    kind: str, fields: dict[str, Any], loss: float | None
) -> None:
    fields = fields | ({"learning_rate": 0.1} if kind == "clw" else {})
    run = unanswered(kind, Expiry(WINDOW, loss), **fields)

    assert run.ledger.outstanding <= WINDOW + 2
    assert run.ledger.expired == SLOTS - run.ledger.outstanding
    assert run.ledger.total_delay <= SLOTS * (WINDOW + 2)


@pytest.mark.parametrize("loss", [0.5, None])
def test_the_anytime_rate_of_dexp3_falls_no_faster_than_with_delays_of_a_window(loss: float | None) -> None:
    """eta = 2 sqrt((1 + ln K)/(K t + D)): D is about 17 t with expiry and t^2/2 without."""
    on, off = (unanswered("dexp3", expiry).state for expiry in (Expiry(WINDOW, loss), None))

    assert on.delay_sum <= SLOTS * (WINDOW + 2)
    assert off.delay_sum == SLOTS * (SLOTS - 1) // 2
    assert on.learning_rate > 5 * off.learning_rate


@pytest.mark.parametrize("loss", [0.5, None])
def test_the_pool_of_centred_tsallis_is_of_the_window_alone(loss: float | None) -> None:
    on, off = (unanswered("centred_tsallis", expiry).state for expiry in (Expiry(WINDOW, loss), None))

    assert on.outstanding <= WINDOW + 2
    assert off.outstanding == 1000


def test_a_dropped_decision_is_a_slot_and_no_loss() -> None:
    dropped, told = (unanswered("centred_tsallis", Expiry(WINDOW, loss)).state for loss in (None, 0.5))

    assert (dropped.t, dropped.events, dropped.mean, dropped.variance_sum) == (SLOTS, 0, 0, 0)
    assert (told.t, told.events, told.mean) == (SLOTS, SLOTS - told.outstanding, 0.5)
