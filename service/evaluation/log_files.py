"""Reading decision logs: JSON lines, CSV, or parquet."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from .. import install
from .entries import Entry, entry_of

FORMATS = ("jsonl", "csv", "parquet")
NEEDS_EXTRA = f"parquet needs the extra `export`: {install('export')}"
NO_ENTRY = "not an entry of a decision log"


class LogFileError(Exception):
    """The file can't be read; the text says why."""


def read_entries(path: Path, form: str | None = None) -> Iterator[Entry]:
    """Yield the entries of a decision log, in order.

    Parameters
    ----------
    path : of the log
    form : one of ``FORMATS``; by default that of the file's name

    Raises
    ------
    LogFileError
        for a file of no such format or that can't be read, one with something that is no entry, or parquet without
        pyarrow.
    """
    form = form or path.suffix.removeprefix(".")
    if form not in FORMATS:
        raise LogFileError(f"{path}: name the format, one of {', '.join(FORMATS)}")
    try:
        yield from {"jsonl": _jsonl, "csv": _csv, "parquet": _parquet}[form](path)
    except OSError as error:
        raise LogFileError(f"{path}: {error.strerror or error}") from error


def _jsonl(path: Path) -> Iterator[Entry]:
    """Yield the entries of a file, one or a page of them a line, as the service answers them."""
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                yield from map(entry_of, _rows(json.loads(line)))
            except (ValueError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
                raise LogFileError(f"{path}, line {number}: {NO_ENTRY}") from error


def _rows(value: Any) -> Iterable[Any]:
    return value["decisions"] if isinstance(value, dict) and "decisions" in value else [value]


def _csv(path: Path) -> Iterator[Entry]:
    """Yield the entries of a table with a column for each field, named in the first line.

    Empty cells are fields that an entry does not have.
    """
    with path.open(encoding="utf-8", newline="") as lines:
        rows = csv.DictReader(lines)
        try:
            yield from map(entry_of, rows)
        except (ValueError, TypeError, ArithmeticError, csv.Error) as error:
            raise LogFileError(f"{path}, line {rows.line_num}: {NO_ENTRY}") from error


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


def _parquet(path: Path) -> Iterator[Entry]:
    parquet = parquet_module()
    try:
        for batch in parquet.ParquetFile(path).iter_batches():
            yield from map(entry_of, batch.to_pylist())
    except (ValueError, TypeError, ArithmeticError) as error:
        raise LogFileError(f"{path}: not a parquet file of a decision log") from error
