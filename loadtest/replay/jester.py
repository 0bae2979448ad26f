"""Jester dataset 1: users rate jokes from -10 (worst) to 10 (best); joke is arm, user is slot."""

from __future__ import annotations

import csv
import gzip
import hashlib
import importlib
import io
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from loadtest.errors import DataError
from service.learners.base import FloatArray

MAX_BYTES = 256 * 2**20
"""Cap on a file's size, packed and unpacked: 20 times the largest file of the data set."""

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


Cells = Sequence[Any]
Parser = Callable[[bytes, str], Iterator[Cells]]
_MAGIC = {b"\x1f\x8b": "gzip", b"PK\x03\x04": "zip", b"PK\x05\x06": "zip", b"\xd0\xcf\x11\xe0\xa1\xb1": "xls"}
_CONTENT_OF = {"csv": "text", "csv.gz": "gzip", "xls": "xls", "xlsx": "zip"}
_HTML = (b"<!doctype", b"<html", b"<head", b"<?xml", b"<body", b"<table")


@contextmanager
def _refused(what: str, *errors: type[Exception], hint: str = "") -> Iterator[None]:
    """Raise DataError instead of these errors."""
    try:
        yield
    except errors as error:
        raise DataError(f"{what} ({error}){hint}") from error


def read_table(path: Path) -> tuple[str, Iterator[Cells]]:
    """Return where a table comes from, and its rows, blank ones included so that row numbers are the file's.

    Everything is read in memory with a cap on its unpacked size; nothing is ever written.

    Raises
    ------
    DataError
        where the file is missing, empty, damaged, too large, or its content isn't what its name says.
    """
    if not path.is_file():
        raise DataError(f"{path}: no such file")
    if path.stat().st_size > MAX_BYTES:
        raise DataError(f"{path}: larger than {MAX_BYTES} bytes")
    return _open(path.read_bytes(), path.name, str(path))


def _open(data: bytes, name: str, where: str) -> tuple[str, Iterator[Cells]]:
    suffix, found = _suffix(name), _content(data)
    if found == "empty":
        raise DataError(f"{where}: the file is empty")
    if found == "html":
        raise DataError(f"{where}: this is a web page (HTML), not data; download the file itself")
    if suffix == "zip":
        return _unzip(data, where)
    if suffix not in _PARSERS:
        raise DataError(f"{where}: unknown kind of file; expected {', '.join(('zip', *_PARSERS))}")
    if found != _CONTENT_OF[suffix]:
        raise DataError(f"{where}: named .{suffix}, but its content is {found}")
    return where, _PARSERS[suffix](data, where)


def _suffix(name: str) -> str:
    lower = name.lower()
    return "csv.gz" if lower.endswith(".csv.gz") else PurePosixPath(lower).suffix.lstrip(".")


def _content(data: bytes) -> str:
    head = data[:1024].removeprefix(b"\xef\xbb\xbf").lstrip().lower()
    if not head:
        return "empty"
    other = "html" if head.startswith(_HTML) else "binary" if b"\0" in data[:1024] else "text"
    return next((kind for magic, kind in _MAGIC.items() if data.startswith(magic)), other)


def _unzip(data: bytes, where: str) -> tuple[str, Iterator[Cells]]:
    damages = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError)
    damaged = _refused(f"{where}: not a complete zip file", *damages, hint="; download it again")
    with damaged, zipfile.ZipFile(io.BytesIO(data)) as archive:
        member = _data_member(archive, where)
        with archive.open(member) as stream:
            content = _read_capped(stream, f"{where}: {member.filename}")
    return _open(content, member.filename, f"{where}: {member.filename}")


def _data_member(archive: zipfile.ZipFile, where: str) -> zipfile.ZipInfo:
    members, found = [info for info in archive.infolist() if not info.is_dir()], []
    for info in members:
        path = PurePosixPath(info.filename.replace("\\", "/"))
        if path.is_absolute() or ".." in path.parts or ":" in path.parts[0]:
            raise DataError(f"{where}: refused, it names a member outside its own folder: {info.filename!r}")
        is_hidden = path.parts[0] == "__MACOSX" or path.name.startswith(".")
        if _suffix(info.filename) in _PARSERS and not is_hidden:
            found.append(info)
    if len(found) != 1:
        raise DataError(f"{where}: expected one data file inside, found {len(found)}")
    return found[0]


def _read_capped(stream: BinaryIO | Any, where: str) -> bytes:
    content: bytes = stream.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise DataError(f"{where}: unpacks to more than {MAX_BYTES} bytes")
    return content


def _csv(data: bytes, where: str) -> Iterator[Cells]:
    with _refused(f"{where}: not plain comma-separated text", UnicodeDecodeError, csv.Error):
        yield from csv.reader(io.StringIO(data.decode("utf-8-sig"), newline=""))


def _csv_gz(data: bytes, where: str) -> Iterator[Cells]:
    damages = (EOFError, gzip.BadGzipFile, zlib.error)
    damaged = _refused(f"{where}: not a complete gzip file", *damages, hint="; download it again")
    with damaged, gzip.GzipFile(fileobj=io.BytesIO(data)) as stream:
        content = _read_capped(stream, where)
    if _content(content) != "text":
        raise DataError(f"{where}: named .csv.gz, but holds {_content(content)}")
    yield from _csv(content, where)


def _xls(data: bytes, where: str) -> Iterator[Cells]:
    xlrd = _extra("xlrd", where)
    # xlrd meets damaged files with whatever it stumbles over, and so does openpyxl.
    with _refused(f"{where}: not a readable xls workbook", Exception):
        sheet = xlrd.open_workbook(file_contents=data, logfile=io.StringIO()).sheet_by_index(0)
    for row in range(sheet.nrows):
        yield sheet.row_values(row)


def _xlsx(data: bytes, where: str) -> Iterator[Cells]:
    openpyxl = _extra("openpyxl", where)
    damaged = _refused(f"{where}: not a complete xlsx workbook", zipfile.BadZipFile, hint="; download it again")
    with damaged, zipfile.ZipFile(io.BytesIO(data)) as archive:
        size = sum(info.file_size for info in archive.infolist())
    if size > MAX_BYTES:
        raise DataError(f"{where}: unpacks to more than {MAX_BYTES} bytes")
    with _refused(f"{where}: not a readable xlsx workbook", Exception), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # openpyxl warns about styles, which don't matter here
        book = openpyxl.load_workbook(io.BytesIO(data), read_only=True, data_only=True)
        rows = list(book.worksheets[0].iter_rows(values_only=True))
        book.close()
    yield from rows


def _extra(module: str, where: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise DataError(f"{where}: reading it needs {module}: pip install '.[loadtest]'") from error


_PARSERS: dict[str, Parser] = {"csv": _csv, "csv.gz": _csv_gz, "xls": _xls, "xlsx": _xlsx}


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
    sources = [source for part in parts for source in part.sources]
    texts = [text for part in parts for text in part.warnings]
    return Ratings(np.concatenate([part.values for part in parts]), sources, texts)


def _read_file(path: Path) -> Ratings:
    where, rows = read_table(path)
    filled = [
        (number, cells) for number, cells in enumerate(rows, 1) if any(cell not in (None, "") for cell in cells)
    ]
    if not filled:
        raise DataError(f"{where}: holds no ratings")
    numbers = [number for number, _ in filled]
    values = np.array([_numbers(cells, f"{where}, row {number}") for number, cells in filled])
    counts, ratings = values[:, 0], values[:, 1:]
    missing = ratings == MISSING
    wrong = np.argwhere(~((ratings >= WORST) & (ratings <= BEST) | missing))
    if wrong.size:
        row, joke = wrong[0]
        raise DataError(
            f"{where}, row {numbers[row]}, column {joke + 2}: rating {ratings[row, joke]!s} lies outside "
            f"[{WORST:g}, {BEST:g}] and is not {MISSING:g} (not rated)"
        )
    rated = (~missing).sum(axis=1)
    warned = [
        f"{where}, row {numbers[row]}: says {counts[row]:g} ratings, has {rated[row]}; the cells count"
        for row in np.flatnonzero(counts != rated)
    ]
    source = Source(path.name, hashlib.sha256(path.read_bytes()).hexdigest(), len(values))
    return Ratings(np.where(missing, np.nan, ratings), [source], warned)


def _numbers(cells: Cells, where: str) -> list[float]:
    if len(cells) != JOKES + 1:
        columns = f"{len(cells)} columns, expected {JOKES + 1} (a count, then {JOKES} ratings)"
        raise DataError(f"{where}: {columns}")
    numbers = []
    for column, cell in enumerate(cells, start=1):
        try:
            # What ``float`` takes beside plain decimals: digits of other scripts, and 1_0 for 10.
            if isinstance(cell, str) and ("_" in cell or not cell.isascii()):
                raise ValueError(cell)
            numbers.append(float(cell))
        except (TypeError, ValueError) as error:
            raise DataError(f"{where}, column {column}: not a number (the file has no header)") from error
    return numbers
