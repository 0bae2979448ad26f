"""Small Jester tables of invented ratings, in every format."""

import gzip
import io
import zipfile
from pathlib import Path

import numpy as np
import openpyxl

from loadtest.replay.jester import JOKES, MISSING

XLS = Path(__file__).parents[1] / "loadtest/data/three_users.xls"
"""Written by a spreadsheet library from ``invented(3)``, like the official file: count first, 99 for missing."""


def invented(users: int, seed: int = 7) -> np.ndarray:
    """A table with its count column: ratings uniform on [-10, 10], two decimals, three in ten missing."""
    rng = np.random.default_rng(seed)
    ratings = np.round(rng.uniform(-10, 10, (users, JOKES)), 2)
    ratings[rng.random((users, JOKES)) < 0.3] = MISSING
    return np.hstack([(ratings != MISSING).sum(axis=1, keepdims=True), ratings])


def row(*ratings: float | str, count: int | None = None) -> list[float | str]:
    """One user's row: the given ratings, then missing ones."""
    cells = list(ratings) + [MISSING] * (JOKES - len(ratings))
    return [sum(cell != MISSING for cell in cells) if count is None else count, *cells]


def as_csv(rows: object) -> bytes:
    return "".join(",".join(f"{cell}" for cell in cells) + "\n" for cells in rows).encode()


def as_xlsx(rows: object) -> bytes:
    book = openpyxl.Workbook()
    for cells in rows:
        book.active.append([float(cell) for cell in cells])
    stream = io.BytesIO()
    book.save(stream)
    return stream.getvalue()


def as_zip(members: dict[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return stream.getvalue()


def write(folder: Path, name: str, content: bytes) -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def write_csv(folder: Path, *rows: list[float | str], name: str = "jester.csv") -> Path:
    return write(folder, name, as_csv(rows))


def packed(rows: object) -> bytes:
    return gzip.compress(as_csv(rows), mtime=0)
