"""Rows of files: JSON lines, tables as text, and parquet, packed with gzip or not."""

import csv
import gzip
import itertools
import json
import math
import shutil
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from . import encoding_of, install

FORMATS = ("jsonl", "ndjson", "json", "csv", "tsv", "parquet")
NUMBERS = frozenset({"probability", "loss", "reward"})
WHOLES = frozenset({"slot", "position", "eligible", "count", "arm"})
"""Columns whose numbers may have decimal commas, where no commas separate cells."""
TEXTS = frozenset({"session_id", "label", "segment", "event_id", "goal", "token"})
"""Columns whose cells clients choose: any text is one."""
ABSENT = frozenset({"nan", "na", "n/a", "null", "none", "<na>"})
"""What programs write into a cell without a value."""
WRONG: tuple[type[Exception], ...] = (ValueError, TypeError, ArithmeticError, csv.Error, RecursionError)
"""What a row that can't be read is told as."""

PAST: Mapping[str, type] = {"label": str, **dict.fromkeys(("arm", "reward", "loss", "count"), float)}
"""Columns of past decisions, and how a cell of each is read."""
MOST_ARMS, MOST_ACTS, LONGEST_LABEL = 100_000, 10**9, 65_536
"""What of past decisions a session may begin with."""


class LogFileError(Exception):
    """The file can't be read; the text says why."""


class Row(NamedTuple):
    """One row, or line."""

    number: int
    """From 1: of a line, or of a table's row below the names of the columns."""
    where: str
    value: Any
    """What a line of JSON says, or cells by column; the error where it is no row."""


def form_of(path: Path, form: str | None) -> str:
    """Return the form of a file: that which is named, or that of its name.

    Raises
    ------
    LogFileError
        for none of ``FORMATS``.
    """
    form = (form or path.name.lower().removesuffix(".gz").rpartition(".")[2]).lower()
    if form not in FORMATS:
        raise LogFileError(f"{path}: name the format, one of {', '.join(FORMATS)}")
    return form


def is_absent(name: str, value: Any) -> bool:
    """Return whether the cell of a column has no value."""
    if isinstance(value, str):
        return value == "" or (value.strip().lower() in ABSENT and name not in TEXTS)
    return value is None or (isinstance(value, float) and math.isnan(value))


def read_cell(readers: Mapping[str, Callable[[Any], Any]], name: str, value: Any) -> Any:
    """Return what the cell of a column says, by the reader of that name; as it is if there is none.

    Raises
    ------
    ValueError
        for one that can't be read.
    """
    try:
        if name in NUMBERS | WHOLES and isinstance(value, str) and ("_" in value or not value.isascii()):
            raise ValueError  # Python reads 1_0 and digits of other scripts as numbers.
        return readers[name](value) if name in readers else value
    except (ValueError, TypeError, ArithmeticError, KeyError, SyntaxError) as error:
        raise ValueError(f"{name}: {repr(value)[:40]} can't be read") from error


def read_rows(path: Path, form: str | None = None) -> Iterator[Row]:
    """Yield the rows of a file, in order; text may be UTF-8 or UTF-16, and packed with gzip.

    Parameters
    ----------
    path : of the file
    form : one of ``FORMATS``; by default that of the file's name, before ``.gz``

    Raises
    ------
    LogFileError
        for a file of no such format or that can't be read, or parquet without pyarrow.
    """
    form = form_of(path, form)
    with _told(path):
        if form == "parquet":
            yield from _parquet(path)
            return
        with _opened(path) as file:
            encoding = encoding_of(file.read(4))
        with _opened(path, "rt", encoding=encoding, newline="") as lines:
            yield from (_csv if form in {"csv", "tsv"} else _jsonl)(lines)


def initial_of(
    path: str | Path, span: Sequence[float] = (0, 1), default: float | None = None, most_acts: int = MOST_ACTS
) -> list[dict[str, Any]]:
    """Fold past decisions into ``initial`` of a new session: how often each arm was played, and its mean.

    Parameters
    ----------
    path : of a file with a decision in each row: ``label`` or ``arm``, ``reward`` or ``loss``, and ``count``, if it
        stands for several with this mean; other columns are not looked at
    span : ``reward_range`` or ``loss_range`` of the session
    default : what an empty reward or loss counts as; without one such a row is refused
    most_acts : so many acts count for an arm at most

    Raises
    ------
    LogFileError
        for a file that can't be read or has no rows, and for the first row that is wrong, with its line.
    """
    low, high = sorted(span)
    sums: dict[str | int, tuple[int, float]] = {}
    all_acts, word = 0, ""
    for _, where, row in read_rows(Path(path)):
        try:
            if not isinstance(row, dict):
                raise row if isinstance(row, Exception) else ValueError("must be a JSON object")
            said = {name: read_cell(PAST, name, row[name]) for name in PAST if not is_absent(name, row.get(name))}
            if (name := said.get("label", said.get("arm"))) is None or ("label" in said and "arm" in said):
                raise ValueError("give either label or arm")
            words = [each for each in ("reward", "loss") if each in row]
            if len(words) != 1 or (word and words != [word]):
                raise ValueError("give either reward or loss, in all rows the same")
            word = words[0]
            if (outcome := said.get(word, default)) is None:
                raise ValueError(f"{word} is empty: say what that counts as, as `default`")
            if not low <= outcome <= high:
                raise ValueError(f"{word} must lie in [{low}, {high}], not {outcome}")
            count = said.get("count", 1)
            all_acts += count
            if not (count >= 1 and all_acts <= MOST_ACTS and float(count).is_integer()):
                raise ValueError(f"count must be a whole number from 1, of {MOST_ACTS} acts in all at most")
            if isinstance(name, str) and len(name) > LONGEST_LABEL:
                raise ValueError(f"label must have {LONGEST_LABEL} characters at most")
            if isinstance(name, float) and not (name.is_integer() and 0 <= name < MOST_ARMS):
                raise ValueError(f"arm must be a whole number from 0, below {MOST_ARMS}")
            acts, total = sums.get(name, (0, 0.0))
            sums[name] = (acts + int(count), total + count * outcome)
            if len(sums) > MOST_ARMS:
                raise ValueError(f"more than {MOST_ARMS} arms")
        except WRONG as error:
            raise LogFileError(f"{path}, {where}: {error}") from error
    if not sums:
        raise LogFileError(f"{path}: no past decisions")
    found: list[dict[str, Any]] = []
    for name, (acts, total) in sums.items():
        said = {"label": name} if isinstance(name, str) else {"arm": int(name)}
        mean = min(max(total / acts, low), high)
        found.append(said | {"acts": min(acts, most_acts), f"mean_{word}": mean})
    return found


@contextmanager
def piped(name: str) -> Iterator[Path]:
    """Yield the file of a name; for ``-`` one of JSON lines with what comes on standard input."""
    if name != "-":
        yield Path(name)
        return
    with TemporaryDirectory(prefix="bandit-rows-") as folder:
        path = Path(folder) / "standard-input.jsonl"
        with path.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
        try:
            yield path
        except LogFileError as error:
            raise LogFileError(str(error).replace(str(path), "standard input")) from error


def digest_of(path: Path) -> str:
    """Return what stands for the unpacked bytes of a file.

    Raises
    ------
    LogFileError
        for one that can't be read.
    """
    found = blake2b(digest_size=16)
    with _told(path), _opened(path) as file:
        while part := file.read(1 << 20):
            found.update(part)
    return found.hexdigest()


def _opened(path: Path, mode: str = "rb", **options: Any) -> Any:
    with path.open("rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
    return (gzip.open if packed else open)(path, mode, **options)


@contextmanager
def _told(path: Path) -> Iterator[None]:
    try:
        yield
    except UnicodeDecodeError as error:
        raise LogFileError(f"{path}: neither UTF-8 nor UTF-16") from error
    except (OSError, EOFError, zlib.error, csv.Error) as error:
        raise LogFileError(f"{path}: {getattr(error, 'strerror', None) or error}") from error


def _jsonl(lines: Iterable[str]) -> Iterator[Row]:
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                value = json.loads(line, object_pairs_hook=_unique)
            except WRONG as error:
                value = error
            yield Row(number, f"line {number}", value)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(value := dict(pairs)) != len(pairs):
        raise ValueError("a field is named twice")
    return value


def _csv(lines: Iterable[str]) -> Iterator[Row]:
    """Yield the rows of a table whose columns are named in the first line.

    Commas, semicolons or tabs separate cells, by the first line.
    """
    lines = iter(lines)
    first = next((line for line in lines if line.strip()), "")
    separator = max(",;\t", key=first.count)
    rows = csv.DictReader(itertools.chain([first], lines), delimiter=separator)
    rows.fieldnames = [name.strip() for name in rows.fieldnames or ()]
    if twice := [name for name, other in itertools.pairwise(sorted(rows.fieldnames)) if name == other != ""]:
        raise csv.Error(f"several columns are named {twice[0]}")
    for number in itertools.count(1):
        try:
            value: Any = next(rows)
            value.pop("", None)  # A column without a name, such as the index of a data frame.
            if None in value:
                value = ValueError("more cells than columns")
            elif separator != ",":
                value |= {name: (value[name] or "").replace(",", ".") for name in (NUMBERS | WHOLES) & value.keys()}
        except StopIteration:
            return
        except csv.Error as error:
            value = error
        yield Row(number, f"line {rows.line_num}", value)


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
        raise LogFileError(f"parquet needs the extra `export`: {install('export')}") from error


def _parquet(path: Path) -> Iterator[Row]:
    parquet, numbers = parquet_module(), itertools.count(1)
    try:
        batches = parquet.ParquetFile(path).iter_batches()
        for number, value in zip(numbers, (row for batch in batches for row in batch.to_pylist()), strict=False):
            yield Row(number, f"row {number}", value)
    except (ValueError, TypeError, ArithmeticError) as error:
        raise LogFileError(f"{path}: not a parquet file ({error})") from error
