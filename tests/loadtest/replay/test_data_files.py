"""Damaged, mislabelled and hostile files end in one clear sentence, and nothing is written anywhere."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from loadtest.errors import DataError
from loadtest.replay import data_files
from loadtest.replay.jester import read_jester
from tests.support.jester_files import XLS, as_csv, as_xlsx, as_zip, invented, packed, write

HTML = b"<!DOCTYPE html>\n<html><body>404 Not Found</body></html>"
TABLE = as_csv(invented(3).tolist())
ZIP = as_zip({"jester-data-1.csv": TABLE})

REFUSED = {
    "empty.csv": (b"", "the file is empty"),
    "blank.csv": (b" \n\n", "the file is empty"),
    "commas.csv": (b",,,\n", "holds no ratings"),
    "page.csv": (HTML, "web page"),
    "page.xls": (b"\n  <html>", "web page"),
    "page.xlsx": (HTML, "web page"),
    "page.zip": (HTML, "web page"),
    "page.csv.gz": (HTML, "web page"),
    "half.zip": (ZIP[: len(ZIP) // 2], "not a complete zip"),
    "text.zip": (TABLE, "not a complete zip"),
    "half.csv.gz": (packed(invented(3).tolist())[:-40], "not a complete gzip"),
    "half.xlsx": (as_xlsx(invented(3).tolist())[:-400], "not a complete xlsx"),
    "half.xls": (XLS.read_bytes()[:700], "not a readable xls"),
    "other.xlsx": (ZIP, "not a readable xlsx"),
    "really.xls": (as_xlsx(invented(3).tolist()), "named .xls, but its content is zip"),
    "really.csv": (packed(invented(3).tolist()), "named .csv, but its content is gzip"),
    "really.csv.gz": (TABLE, "named .csv.gz, but its content is text"),
    "utf16.csv": (TABLE.decode().encode("utf-16"), "named .csv, but its content is binary"),
    "latin.csv": (b"\xe9" + TABLE, "not plain comma-separated text"),
    "data.dat": (TABLE, "unknown kind of file"),
    "nothing.zip": (as_zip({"readme.txt": b"hello"}), "expected one data file inside, found 0"),
    "two.zip": (as_zip({"a.csv": TABLE, "b.csv": TABLE}), "expected one data file inside, found 2"),
    "up.zip": (as_zip({"../jester-data-1.csv": TABLE}), "outside its own folder"),
    "windows.zip": (as_zip({"a\\..\\..\\j.csv": TABLE}), "outside its own folder"),
    "drive.zip": (as_zip({"C:/j.csv": TABLE}), "outside its own folder"),
    "root.zip": (as_zip({"/tmp/j.csv": TABLE}), "outside its own folder"),
    "inner.zip": (as_zip({"jester-data-1.xls": HTML}), "web page"),
    "hollow.zip": (as_zip({"jester-data-1.csv": b""}), "the file is empty"),
    "holds_html.csv.gz": (b"", "the file is empty"),
}


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_a_file_that_is_not_what_it_says_is_refused(tmp_path: Path, name: str) -> None:
    content, message = REFUSED[name]
    folder = tmp_path / "inner"
    folder.mkdir()
    path = write(folder, name, content)

    with pytest.raises(DataError, match=message) as caught:
        read_jester([path])

    assert name in str(caught.value)
    assert [found.name for found in tmp_path.rglob("*") if found.is_file()] == [name]


def test_a_damaged_member_is_noticed(tmp_path: Path) -> None:
    broken = bytearray(ZIP)
    broken[len(broken) // 3] ^= 0xFF

    with pytest.raises(DataError, match="not a complete zip"):
        read_jester([write(tmp_path, "bad.zip", bytes(broken))])


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"gone\.csv: no such file"):
        read_jester([tmp_path / "gone.csv"])


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("bomb.zip", as_zip({"j.csv": b"0" * 200_000})),
        ("bomb.csv.gz", packed([["0" * 200_000]])),
        ("bomb.xlsx", as_xlsx(invented(40).tolist())),
        ("large.csv", as_csv(invented(200).tolist())),
    ],
)
def test_nothing_is_unpacked_beyond_the_cap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, content: bytes
) -> None:
    monkeypatch.setattr(data_files, "MAX_BYTES", 50_000)

    with pytest.raises(DataError, match=r"(unpacks to more|larger) than 50000 bytes"):
        read_jester([write(tmp_path, name, content)])


@pytest.mark.parametrize(("module", "name"), [("xlrd", "j.xls"), ("openpyxl", "j.xlsx")])
def test_without_its_reader_a_workbook_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, name: str
) -> None:
    content = XLS.read_bytes() if module == "xlrd" else as_xlsx(invented(3).tolist())
    monkeypatch.setitem(sys.modules, module, None)

    with pytest.raises(DataError, match=rf"needs {module}: pip install"):
        read_jester([write(tmp_path, name, content)])
