"""Rows of numbers out of csv, csv.gz, xls, xlsx, or a zip that holds one of them.

Everything is read in memory with a cap on its unpacked size; nothing is ever written.
"""

from __future__ import annotations

import csv
import gzip
import importlib
import io
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, NamedTuple

from loadtest.errors import DataError

MAX_BYTES = 256 * 2**20
"""Cap on a file's size, packed and unpacked: 20 times the largest file of the data set."""

Cells = Sequence[Any]
Parser = Callable[[bytes, str], Iterator[Cells]]


class Table(NamedTuple):
    """Where a table comes from and its rows, blank ones included so that row numbers are the file's."""

    name: str
    rows: Iterator[Cells]


def read_table(path: Path) -> Table:
    """Open a data file.

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


def _open(data: bytes, name: str, where: str) -> Table:
    suffix = _suffix(name)
    found = _content(data)
    if found == "empty":
        raise DataError(f"{where}: the file is empty")
    if found == "html":
        raise DataError(f"{where}: this is a web page (HTML), not data; download the file itself")
    if suffix == "zip":
        return _unzip(data, where)
    if suffix not in _PARSERS:
        raise DataError(f"{where}: unknown kind of file; expected {', '.join(('zip', *_PARSERS))}")
    if found not in _CONTENT_OF[suffix]:
        raise DataError(f"{where}: named .{suffix}, but its content is {found}")
    return Table(where, _PARSERS[suffix](data, where))


def _suffix(name: str) -> str:
    lower = name.lower()
    return "csv.gz" if lower.endswith(".csv.gz") else PurePosixPath(lower).suffix.lstrip(".")


def _content(data: bytes) -> str:
    head = data[:1024].removeprefix(b"\xef\xbb\xbf").lstrip().lower()
    if not head:
        return "empty"
    for magic, kind in _MAGIC:
        if data.startswith(magic):
            return kind
    if head.startswith((b"<!doctype", b"<html", b"<head", b"<?xml", b"<body", b"<table")):
        return "html"
    return "binary" if b"\0" in data[:1024] else "text"


_MAGIC = (
    (b"\x1f\x8b", "gzip"),
    (b"PK\x03\x04", "zip"),
    (b"PK\x05\x06", "zip"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "xls"),
)
_CONTENT_OF = {"csv": ("text",), "csv.gz": ("gzip",), "xls": ("xls",), "xlsx": ("zip",)}


def _unzip(data: bytes, where: str) -> Table:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            member = _data_member(archive, where)
            with archive.open(member) as stream:
                content = _read_capped(stream, f"{where}: {member.filename}")
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise DataError(f"{where}: not a complete zip file ({error}); download it again") from error
    return _open(content, member.filename, f"{where}: {member.filename}")


def _data_member(archive: zipfile.ZipFile, where: str) -> zipfile.ZipInfo:
    members = [info for info in archive.infolist() if not info.is_dir()]
    for info in members:
        path = PurePosixPath(info.filename.replace("\\", "/"))
        if path.is_absolute() or ".." in path.parts or ":" in path.parts[0]:
            raise DataError(f"{where}: refused, it names a member outside its own folder: {info.filename!r}")
    found = [info for info in members if _suffix(info.filename) in _PARSERS and _is_visible(info.filename)]
    if len(found) != 1:
        raise DataError(f"{where}: expected one data file inside, found {len(found)}")
    return found[0]


def _is_visible(member: str) -> bool:
    return not member.startswith("__MACOSX/") and not PurePosixPath(member).name.startswith(".")


def _read_capped(stream: BinaryIO | Any, where: str) -> bytes:
    content: bytes = stream.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise DataError(f"{where}: unpacks to more than {MAX_BYTES} bytes")
    return content


def _csv(data: bytes, where: str) -> Iterator[Cells]:
    try:
        text = data.decode("utf-8-sig")
        yield from csv.reader(io.StringIO(text, newline=""))
    except (UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{where}: not plain comma-separated text ({error})") from error


def _csv_gz(data: bytes, where: str) -> Iterator[Cells]:
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as stream:
            content = _read_capped(stream, where)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DataError(f"{where}: not a complete gzip file ({error}); download it again") from error
    if _content(content) != "text":
        raise DataError(f"{where}: named .csv.gz, but holds {_content(content)}")
    yield from _csv(content, where)


def _xls(data: bytes, where: str) -> Iterator[Cells]:
    xlrd = _extra("xlrd", where)
    try:
        sheet = xlrd.open_workbook(file_contents=data, logfile=io.StringIO()).sheet_by_index(0)
    except Exception as error:  # xlrd meets damaged files with whatever it stumbles over
        raise DataError(f"{where}: not a readable xls workbook ({error})") from error
    for row in range(sheet.nrows):
        yield sheet.row_values(row)


def _xlsx(data: bytes, where: str) -> Iterator[Cells]:
    openpyxl = _extra("openpyxl", where)
    _check_unpacked_size(data, where)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # openpyxl warns about styles, which don't matter here
            book = openpyxl.load_workbook(io.BytesIO(data), read_only=True, data_only=True)
            rows = list(book.worksheets[0].iter_rows(values_only=True))
            book.close()
    except Exception as error:  # openpyxl meets damaged files with whatever it stumbles over
        raise DataError(f"{where}: not a readable xlsx workbook ({error})") from error
    yield from rows


def _check_unpacked_size(data: bytes, where: str) -> None:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            size = sum(info.file_size for info in archive.infolist())
    except zipfile.BadZipFile as error:
        raise DataError(f"{where}: not a complete xlsx workbook ({error}); download it again") from error
    if size > MAX_BYTES:
        raise DataError(f"{where}: unpacks to more than {MAX_BYTES} bytes")


def _extra(module: str, where: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise DataError(f"{where}: reading it needs {module}: pip install '.[loadtest]'") from error


_PARSERS: dict[str, Parser] = {"csv": _csv, "csv.gz": _csv_gz, "xls": _xls, "xlsx": _xlsx}
