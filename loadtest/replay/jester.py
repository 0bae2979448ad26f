"""Jester dataset 1: users rate jokes from -10 (worst) to 10 (best); joke is arm, user is slot."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from loadtest.errors import DataError
from loadtest.replay.data_files import Cells, read_table
from service.learners.base import FloatArray

JOKES = 100
MISSING = 99.0
"""Stands for "not rated"."""
BEST, WORST = 10.0, -10.0

PAGE = "https://eigentaste.berkeley.edu/dataset/"
WHERE_FROM = f"""\
The replay needs the ratings of Jester dataset 1, which this project does not ship:
  1. open the dataset's page, {PAGE}
  2. under "Dataset 1" download jester_dataset_1_1.zip (24,983 users, 100 jokes; about 4 MB)
  3. put it anywhere, for example data/jester_dataset_1_1.zip, and pass it on:
     python -m loadtest replay jester --data data/jester_dataset_1_1.zip
The zip as it is, the .xls inside, or the same table as .xlsx, .csv or .csv.gz will do. For all 73,421 users
give the three parts in order, each with its own --data. Free for research when acknowledged: K. Goldberg,
T. Roeder, D. Gupta, C. Perkins, "Eigentaste: A Constant Time Collaborative Filtering Algorithm",
Information Retrieval 4(2), 2001."""


class Source(NamedTuple):
    """One file that was read."""

    name: str
    sha256: str
    users: int


@dataclass(frozen=True, slots=True)
class Ratings:
    """Ratings of all users in file order."""

    values: FloatArray
    """Shape (users, jokes); NaN where not rated."""
    sources: list[Source]
    warnings: list[str] = field(default_factory=list)

    @property
    def user_ids(self) -> range:
        """Running number over the files in the order given, from 1: a user's id is unique and stays the same."""
        return range(1, len(self.values) + 1)

    @property
    def rated(self) -> int:
        """Entries that a user really rated."""
        return int(np.count_nonzero(~np.isnan(self.values)))

    def filled(self, seed: int) -> FloatArray:
        """Ratings with each missing entry's score drawn uniformly on [0, 1), row by row, from ``seed``."""
        values = self.values.copy()
        missing = np.isnan(values)
        scores = np.random.default_rng(seed).random(int(missing.sum()))
        values[missing] = WORST + (BEST - WORST) * scores
        return values


def read_jester(paths: Sequence[Path]) -> Ratings:
    """Read one or more files and join them in the order given.

    Raises
    ------
    DataError
        without a file, or where one is not a Jester table; the text names file, row and column.
    """
    if not paths:
        raise DataError(f"no data file given\n{WHERE_FROM}")
    parts = [_read_file(path) for path in paths]
    return Ratings(
        np.concatenate([part.values for part in parts]),
        [source for part in parts for source in part.sources],
        [text for part in parts for text in part.warnings],
    )


def _read_file(path: Path) -> Ratings:
    table = read_table(path)
    numbers, rows = [], []
    for number, cells in _rows_with_content(table.rows):
        rows.append(_numbers(cells, number, table.name))
        numbers.append(number)
    if not rows:
        raise DataError(f"{table.name}: holds no ratings")
    values = np.array(rows)
    counts, ratings = values[:, 0], values[:, 1:]
    missing = ratings == MISSING
    _check_range(ratings, missing, numbers, table.name)
    warnings = _compare_counts(counts, (~missing).sum(axis=1), numbers, table.name)
    source = Source(path.name, hashlib.sha256(path.read_bytes()).hexdigest(), len(rows))
    return Ratings(np.where(missing, np.nan, ratings), [source], warnings)


def _rows_with_content(rows: Iterator[Cells]) -> Iterator[tuple[int, Cells]]:
    for number, cells in enumerate(rows, start=1):
        if any(cell is not None and cell != "" for cell in cells):
            yield number, cells


def _numbers(cells: Cells, number: int, where: str) -> list[float]:
    if len(cells) != JOKES + 1:
        raise DataError(
            f"{where}, row {number}: {len(cells)} columns, expected {JOKES + 1} (a count, then {JOKES} ratings)"
        )
    try:
        return [_number(cell) for cell in cells]
    except (TypeError, ValueError) as error:
        column = next(place for place, cell in enumerate(cells, start=1) if not _is_number(cell))
        raise DataError(f"{where}, row {number}, column {column}: not a number (the file has no header)") from error


def _number(cell: Any) -> float:
    # What ``float`` takes beside plain decimals: digits of other scripts, and 1_0 for 10.
    if isinstance(cell, str) and ("_" in cell or not cell.isascii()):
        raise ValueError(cell)
    return float(cell)


def _is_number(cell: Any) -> bool:
    try:
        _number(cell)
    except (TypeError, ValueError):
        return False
    return True


def _check_range(ratings: FloatArray, missing: NDArray[np.bool_], numbers: list[int], where: str) -> None:
    inside = (ratings >= WORST) & (ratings <= BEST)
    wrong = np.argwhere(~(inside | missing))
    if wrong.size:
        row, joke = wrong[0]
        raise DataError(
            f"{where}, row {numbers[row]}, column {joke + 2}: rating {ratings[row, joke]!s} lies outside "
            f"[{WORST:g}, {BEST:g}] and is not {MISSING:g} (not rated)"
        )


def _compare_counts(counts: FloatArray, rated: NDArray[np.int_], numbers: list[int], where: str) -> list[str]:
    return [
        f"{where}, row {numbers[row]}: says {counts[row]:g} ratings, has {rated[row]}; the cells count"
        for row in np.flatnonzero(counts != rated)
    ]
