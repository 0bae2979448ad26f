"""Lemma index: the delays counted in virtual slots add up to D, and each is at most 2 d-bar."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.engine.ledger import Ledger
from tests.support import vectors
from tests.support.examples import examples


def virtual_slots(delays: list[int]) -> tuple[list[int], list[int], int]:
    """t(tau), s~ = tau - 1 - L_{t(tau)-1}, and the sum of delays a ledger counts without any labels."""
    ledger, received, opened, order = Ledger(), 0, {}, []
    for t in range(1, len(delays) + 1):
        opened[ledger.open()] = received
        arrived = [s for s in range(1, t + 1) if s + delays[s - 1] == t]
        for _ in arrived:
            ledger.settle()
        received += len(arrived)
        order += arrived
    ledger.open()
    return order, [tau - opened[t] for tau, t in enumerate(order)], ledger.total_delay


@pytest.mark.parametrize("case", vectors.load("delays")["virtual_slots"], ids=lambda case: str(case["d"]))
def test_virtual_slots_by_hand(case: dict[str, Any]) -> None:
    order, lags, _ = virtual_slots(case["d"])

    assert order == case["t_of_tau"]
    assert lags == case["s_tilde"]


@settings(max_examples=examples(500), deadline=None, derandomize=True)
@given(st.lists(st.integers(0, 30), min_size=1, max_size=60))
def test_lemma_index_and_the_ledgers_delay_sum(wanted: list[int]) -> None:
    delays = [min(delay, len(wanted) - t) for t, delay in enumerate(wanted, start=1)]

    order, lags, total = virtual_slots(delays)

    assert sorted(order) == list(range(1, len(delays) + 1))
    assert min(lags) >= 0
    assert max(lags) <= 2 * max(delays)
    assert sum(lags) == sum(delays) == total
