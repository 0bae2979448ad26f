"""At every moment acts = settled by feedback + expired + removed + outstanding."""

from __future__ import annotations

from typing import Any

import pytest

from service.engine.ledger import ArmLedger, Ledger
from tests.support import vectors


@pytest.mark.parametrize("case", vectors.load("delays")["virtual_slots"], ids=lambda case: str(case["d"]))
def test_outstanding_counts_add_up_to_the_sum_of_delays(case: dict[str, Any]) -> None:
    """Every delay d_t keeps decision t outstanding at the end of d_t slots."""
    ledger, delays = Ledger(), case["d"]
    arrivals = [t + delay for t, delay in enumerate(delays, start=1)]

    for t, outstanding in enumerate(case["outstanding_after_slot"], start=1):
        assert ledger.open() == t
        for _ in range(arrivals.count(t)):
            ledger.settle()
        assert ledger.outstanding == outstanding

    ledger.open()
    assert ledger.total_delay == sum(delays)
    assert ledger.feedbacks == len(delays)


def test_a_copy_keeps_its_own_counts() -> None:
    ledger = ArmLedger.of(2)
    ledger.open()
    ledger.by_arm[1] += 1

    copy = ledger.copy()
    copy.settle()
    copy.by_arm[1] -= 1

    assert (ledger.outstanding, ledger.by_arm.tolist()) == (1, [0, 1])
    assert (copy.outstanding, copy.by_arm.tolist()) == (0, [0, 0])
