"""A log evaluates alike whatever table it went through on its way to a file."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from service.evaluation.command import main
from service.evaluation.logs import Outcomes, match, read_entries

ACT = {"kind": "act", "slot": 1, "arm": 0, "probability": 0.5, "eligible": 2, "label": "abc"}
EVENT = {"kind": "event", "arm": 0, "loss": 0.5, "outcome": "applied"}
LOG: list[dict[str, Any]] = [
    ACT,
    ACT | {"slot": 2, "arm": 1, "label": "a"},
    ACT | {"slot": 3},
    EVENT,
    {"kind": "arms", "added": ["e"], "removed": ["abc"], "paused": [], "resumed": []},
    ACT | {"slot": 4, "arm": 1, "label": "a"},
    {"kind": "session", "changed": ["floor"]},
    {"kind": "event", "arm": 1, "loss": 1.0, "outcome": "expired", "count": 2},
]
FIELDS = list(dict.fromkeys(name for entry in LOG for name in entry))
Row = Mapping[str, Any]


def as_floats(row: Row) -> Row:
    """What a data frame makes of a column of whole numbers with gaps."""
    return {name: float(value) if isinstance(value, int) else value for name, value in row.items()}


def with_json_lists(row: Row) -> Row:
    return {name: json.dumps(value) if isinstance(value, list) else value for name, value in row.items()}


def with_gaps(row: Row) -> Row:
    """A row of a data frame: a field that the entry does not have is not a number."""
    return {name: as_floats(row).get(name, float("nan")) for name in FIELDS}


def with_nulls(row: Row) -> Row:
    return {name: row.get(name) for name in FIELDS}


def found(path: Path) -> tuple[list[Any], ...]:
    outcomes: Outcomes = match(read_entries(path))
    arrays = (outcomes.arms, outcomes.probabilities, outcomes.eligible, outcomes.values)
    return (*(array.tolist() for array in arrays), [outcomes.left_out, outcomes.labels])


def written(path: Path, rows: Iterable[Row]) -> Path:
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return path
    with path.open("w", newline="") as file:
        table = csv.DictWriter(file, FIELDS)
        table.writeheader()
        table.writerows(rows)
    return path


@pytest.mark.parametrize("kind", ["jsonl", "csv"])
@pytest.mark.parametrize("change", [dict, as_floats, with_json_lists, with_gaps, with_nulls])
def test_numbers_gaps_and_lists_of_tables_are_read(tmp_path: Path, kind: str, change: Callable[[Row], Row]) -> None:
    read = found(written(tmp_path / f"log.{kind}", map(change, LOG)))

    assert read == ([0, 1, 1], [0.5] * 3, [2] * 3, [0.5, 1.0, 1.0], read[-1])
    assert read[-1] == [{"removed with their arm": 1}, {0: "abc", 1: "a"}]


def test_a_parquet_file_of_a_data_frame_is_read(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    rows = [{name: as_floats(row).get(name) for name in FIELDS} for row in LOG]
    pytest.importorskip("pyarrow.parquet").write_table(pa.Table.from_pylist(rows), tmp_path / "log.parquet")

    assert found(tmp_path / "log.parquet") == found(written(tmp_path / "log.jsonl", LOG))


def test_a_probability_may_exceed_one_by_rounding(tmp_path: Path) -> None:
    sole = {"probability": 1.0000000000000002, "eligible": 1}

    assert found(written(tmp_path / "log.jsonl", [ACT | sole, EVENT]))[0] == [0]


@pytest.mark.parametrize(
    "wrong",
    [
        {"slot": 1.5},
        {"arm": "x"},
        {"arm": 1e308},
        {"probability": 0},
        {"probability": 1.5},
        {"probability": float("inf")},
        {"eligible": 0},
        {"kind": None},
        {"slot": [1]},
        {"count": -1, **EVENT},
        {"outcome": "shown", **EVENT} | {"outcome": "shown"},
        {"kind": "arms", "removed": "abc"},
        {"kind": "arms", "removed": 5},
    ],
    ids=str,
)
def test_values_that_no_log_has_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], wrong: dict[str, Any]
) -> None:
    path = written(tmp_path / "log.jsonl", [ACT, ACT | wrong])

    assert main([str(path), "--json"], "prog") == 1
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert "not an entry of a decision log" in err


def test_a_count_of_more_than_all_acts_does_not_keep_one_waiting(tmp_path: Path) -> None:
    expired = {"kind": "event", "arm": 0, "loss": 1.0, "outcome": "expired", "count": 10**15}

    read = found(written(tmp_path / "log.jsonl", [ACT, expired]))

    assert read[-1][0] == {"trimmed from the log, with an event left": 10**15 - 1}


@pytest.mark.parametrize("bounds", [("0", "0"), ("nan", "1"), ("1", "inf")], ids=str)
def test_a_range_of_losses_has_two_ends(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], bounds: tuple[str, str]
) -> None:
    path = written(tmp_path / "log.jsonl", [ACT, EVENT])

    assert main([str(path), "--columns", str(tmp_path / "out.csv"), "--loss-range", *bounds], "prog") == 1
    assert "two different numbers" in capsys.readouterr().err
    assert not (tmp_path / "out.csv").exists()
