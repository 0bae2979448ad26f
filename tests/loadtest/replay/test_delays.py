from __future__ import annotations

import json
from pathlib import Path

import pytest

from loadtest.replay import delays

RECORDED = json.loads((Path(__file__).parent / "data" / "delays.json").read_text())
ENDINGS = {"none": delays.periodic, "strict": delays.strict, "last": delays.last}


@pytest.mark.parametrize("case", RECORDED["sums"], ids=lambda case: f"{case['T']}-{case['clamp']}")
def test_sums_of_delays(case: dict[str, int | str]) -> None:
    assert ENDINGS[case["clamp"]](case["T"]).sum() == case["D"]


@pytest.mark.parametrize(("slots", "printed"), RECORDED["paper"].items())
def test_the_paper_prints_the_sum_with_only_the_last_delay_cut(slots: str, printed: int) -> None:
    assert delays.total_delay(int(slots)).last == printed


def test_delays_one_by_one() -> None:
    assert delays.strict(20).tolist() == RECORDED["T=20 strict"]
    assert delays.last(14).tolist() == RECORDED["T=14 last"]


def test_no_slots_have_no_delay() -> None:
    assert delays.total_delay(0) == (0, 0)
