"""Reading decision logs: JSON lines, CSV, or parquet."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

FORMATS = ("jsonl", "csv", "parquet")
NEEDS_EXTRA = "parquet needs the extra `export`: pip install 'delayed-bandits[export]'"
_NUMBERS: Mapping[str, Callable[[str], Any]] = {
    **dict.fromkeys(("slot", "arm", "eligible", "count"), int),
    **dict.fromkeys(("probability", "loss", "reward"), float),
}


class LogFileError(Exception):
    """The file can't be read; the text says why."""


def read_entries(path: Path, form: str | None = None) -> Iterator[Mapping[str, Any]]:
    """Read the entries of a decision log, in order.

    Parameters
    ----------
    form : one of ``FORMATS``; by default that of the file's name

    Raises
    ------
    LogFileError
    """
    form = form or path.suffix.removeprefix(".")
    if form not in FORMATS:
        raise LogFileError(f"{path}: name the format, one of {', '.join(FORMATS)}")
    try:
        yield from {"jsonl": _jsonl, "csv": _csv, "parquet": _parquet}[form](path)
    except OSError as error:
        raise LogFileError(f"{path}: {error.strerror or error}") from error


def _jsonl(path: Path) -> Iterator[Mapping[str, Any]]:
    """One entry a line, or one page of entries a line, as the service answers them."""
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                value = json.loads(line)
                yield from _rows(value)
            except (ValueError, TypeError) as error:
                raise LogFileError(f"{path}, line {number}: not an entry of a decision log") from error


def _rows(value: Any) -> Iterable[Mapping[str, Any]]:
    rows = value["decisions"] if isinstance(value, dict) and "decisions" in value else [value]
    if not all(isinstance(row, dict) and "kind" in row for row in rows):
        raise ValueError("no entry")
    return list(rows)


def _csv(path: Path) -> Iterator[Mapping[str, Any]]:
    """A column for each field, named in the first line; empty cells are fields that an entry does not have."""
    with path.open(encoding="utf-8", newline="") as lines:
        rows = csv.DictReader(lines)
        for row in rows:
            try:
                given = {name: text for name, text in row.items() if text}
                entry = {name: _NUMBERS.get(name, str)(text) for name, text in given.items()}
            except (ValueError, TypeError) as error:
                raise LogFileError(f"{path}, line {rows.line_num}: not an entry of a decision log") from error
            if "kind" not in entry:
                raise LogFileError(f"{path}, line {rows.line_num}: not an entry of a decision log")
            yield entry


def parquet_module() -> Any:
    """Return ``pyarrow.parquet``.

    Raises
    ------
    LogFileError
        where it is not installed.
    """
    try:
        return import_module("pyarrow.parquet")
    except ImportError as error:
        raise LogFileError(NEEDS_EXTRA) from error


def _parquet(path: Path) -> Iterator[Mapping[str, Any]]:
    parquet = parquet_module()
    try:
        batches = parquet.ParquetFile(path).iter_batches()
        for batch in batches:
            for row in batch.to_pylist():
                yield {name: value for name, value in row.items() if value is not None}
    except ValueError as error:
        raise LogFileError(f"{path}: not a parquet file of a decision log") from error
