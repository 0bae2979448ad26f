"""Exponents between steps, what counts as superlinear, and what the page says of it."""

from __future__ import annotations

import pytest

from loadtest.bench.growth.report import MARKS, cells_of, section
from loadtest.bench.growth.rows import MILLISECONDS, PER_SECOND, Row, Step, as_json, of_json, sizes_to
from loadtest.bench.markdown import page_with

MACHINE = {"cpus": 2, "load_average": [0.5, 0.5, 0.5], "python": "3.11.7"}


def row(unit: str, *steps: tuple[int, list[float]]) -> Row:
    return Row("one act", "arms", unit, [Step(size, values, 2.5) for size, values in steps])


def summary(*rows: Row) -> dict:
    options = {"wrk": None, "repetitions": 3, "clients": 4, "seconds": 1.0}
    compared = {"floor_ms": 1.0, "pass_ms": 0.5, "at_rest_ms": 0.75}
    return {"rows": as_json(rows), "compared": compared, "options": options, "machine": MACHINE}


@pytest.mark.parametrize(
    ("unit", "values", "middle"),
    [(MILLISECONDS, [2, 20], 1), (MILLISECONDS, [2, 2], 0), (PER_SECOND, [50, 5], 1), (PER_SECOND, [5, 500], -2)],
)
def test_time_grows_as_the_size_to_the_exponent(unit: str, values: list[float], middle: float) -> None:
    found = row(unit, (10, [values[0]]), (100, [values[1]])).exponents()

    assert [each.middle for each in found] == pytest.approx([middle])
    assert [each.least for each in found] == pytest.approx([middle])


@pytest.mark.parametrize(("last", "is_superlinear"), [([21, 30, 40], True), ([19, 30, 40], False)])
def test_superlinear_is_beyond_the_spread(last: list[float], is_superlinear: bool) -> None:
    (found,) = row(MILLISECONDS, (10, [1, 2, 1.5]), (100, last)).exponents()

    assert found.is_superlinear == is_superlinear
    assert found.middle > 1


@pytest.mark.parametrize(
    ("most", "first", "factor", "sizes"),
    [
        (10_000, 10, 10, [10, 100, 1000, 10_000]),
        (1500, 100, 10, [100, 1000, 1500]),
        (4, 1, 2, [1, 2, 4]),
        (7, 7, 10, [7]),
    ],
)
def test_sizes_end_with_the_largest(most: int, first: int, factor: int, sizes: list[int]) -> None:
    assert sizes_to(most, first, factor) == sizes


def test_the_text_names_what_grows_faster_than_the_size() -> None:
    fast = summary(row(MILLISECONDS, (10, [1]), (100, [1]), (1000, [50])))
    slow = summary(row(MILLISECONDS, (10, [1]), (100, [5])))

    fast_words, slow_words = (" ".join(section(each).split()) for each in (fast, slow))

    assert "one act, 100 to 1,000 arms (1.70)" in fast_words
    assert "**1.70**" in fast_words
    assert "Nothing grows faster than the size" in slow_words
    assert "The largest exponent is 0.70: one act, 10 to 100 arms." in slow_words
    assert "one act takes 8 such sums" in slow_words


def test_a_line_has_size_spread_exponent_and_wait() -> None:
    cells = list(cells_of([row(MILLISECONDS, (10, [1, 3, 2]), (100, [200, 200, 200]))]))

    assert cells == [
        ("arms", "10", "one act, ms", "2.00 (1.00 to 3.00)", "", "2.50"),
        ("", "100", "", "200 (200 to 200)", "**2.00**", "2.50"),
    ]


def test_a_page_gets_another_section_and_keeps_the_rest() -> None:
    found = summary(row(MILLISECONDS, (10, [1])))

    page = page_with(f"before\n\n{MARKS[0]}\n\nold\n\n{MARKS[1]}\n\nafter\n", MARKS, section(found))

    assert page == f"before\n\n{MARKS[0]}\n\n{section(found)}\n\n{MARKS[1]}\n\nafter\n"
    assert of_json(found["rows"]) == [row(MILLISECONDS, (10, [1]))]
