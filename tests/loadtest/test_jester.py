"""Damaged, mislabelled and hostile files end in one clear sentence, and nothing is written anywhere."""

import sys

import numpy as np
import pytest

from loadtest.errors import DataError
from loadtest.replay import jester
from loadtest.replay.jester import JOKES, read_jester
from loadtest.replay.worlds import mab_jester
from service.engine.ledger import LossRange
from tests.support.jester_files import XLS, as_csv, as_xlsx, as_zip, invented, packed, row, write, write_csv

HTML = b"<!DOCTYPE html>\n<html><body>404 Not Found</body></html>"
TABLE, XLSX = as_csv(invented(3).tolist()), as_xlsx(invented(3).tolist())
ZIP = as_zip({"jester-data-1.csv": TABLE})

REFUSED = {
    "empty.csv": (b"", "the file is empty"),
    "blank.csv": (b" \n\n", "the file is empty"),
    "commas.csv": (b",,,\n", "holds no ratings"),
    "page.csv": (HTML, "web page"),
    "page.csv.gz": (HTML, "web page"),
    "half.zip": (ZIP[: len(ZIP) // 2], "not a complete zip"),
    "bad.zip": (ZIP[: len(ZIP) // 3] + b"\0\xff\0" + ZIP[len(ZIP) // 3 + 3 :], "not a complete zip"),
    "half.csv.gz": (packed(invented(3).tolist())[:-40], "not a complete gzip"),
    "half.xlsx": (XLSX[:-400], "not a complete xlsx"),
    "half.xls": (XLS.read_bytes()[:700], "not a readable xls"),
    "other.xlsx": (ZIP, "not a readable xlsx"),
    "really.xls": (XLSX, "named .xls, but its content is zip"),
    "really.csv": (packed(invented(3).tolist()), "named .csv, but its content is gzip"),
    "utf16.csv": (TABLE.decode().encode("utf-16"), "named .csv, but its content is binary"),
    "latin.csv": (b"\xe9" + TABLE, "not plain comma-separated text"),
    "data.dat": (TABLE, "unknown kind of file"),
    "nothing.zip": (as_zip({"readme.txt": b"hello"}), "expected one data file inside, found 0"),
    "two.zip": (as_zip({"a.csv": TABLE, "b.csv": TABLE}), "expected one data file inside, found 2"),
    "up.zip": (as_zip({"../jester-data-1.csv": TABLE}), "outside its own folder"),
    "drive.zip": (as_zip({"C:/j.csv": TABLE}), "outside its own folder"),
    "root.zip": (as_zip({"/tmp/j.csv": TABLE}), "outside its own folder"),
    "inner.zip": (as_zip({"jester-data-1.xls": HTML}), "web page"),
}


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_a_file_that_is_not_what_it_says_is_refused(tmp_path, name):
    content, message = REFUSED[name]
    folder = tmp_path / "inner"
    folder.mkdir()
    path = write(folder, name, content)

    with pytest.raises(DataError, match=message) as caught:
        read_jester([path])

    assert name in str(caught.value)
    assert [found.name for found in tmp_path.rglob("*") if found.is_file()] == [name]


@pytest.mark.parametrize(
    ("name", "form", "rows"),
    [
        ("bomb.zip", as_zip, {"j.csv": b"0" * 200_000}),
        ("bomb.csv.gz", packed, [["0" * 200_000]]),
        ("bomb.xlsx", as_xlsx, invented(40).tolist()),
        ("large.csv", as_csv, invented(200).tolist()),
    ],
)
def test_nothing_is_unpacked_beyond_the_cap(tmp_path, monkeypatch, name, form, rows):
    monkeypatch.setattr(jester, "MAX_BYTES", 50_000)

    with pytest.raises(DataError, match=r"(unpacks to more|larger) than 50000 bytes"):
        read_jester([write(tmp_path, name, form(rows))])


@pytest.mark.parametrize(("module", "name"), [("xlrd", "j.xls"), ("openpyxl", "j.xlsx")])
def test_without_its_reader_a_workbook_is_refused(tmp_path, monkeypatch, module, name):
    content = XLS.read_bytes() if module == "xlrd" else as_xlsx(invented(3).tolist())
    monkeypatch.setitem(sys.modules, module, None)

    with pytest.raises(DataError, match=rf"needs {module}: pip install"):
        read_jester([write(tmp_path, name, content)])


def formats(table: np.ndarray) -> dict[str, bytes]:
    rows = table.tolist()
    return {
        "a.csv": as_csv(rows),
        "b.csv.gz": packed(rows),
        "c.xlsx": as_xlsx(rows),
        "d.zip": as_zip({"jester_dataset_1_1/": b"", "jester_dataset_1_1/jester-data-1.xls": XLS.read_bytes()}),
        "e.xls": XLS.read_bytes(),
        "F.CSV": b"\xef\xbb\xbf" + as_csv(rows).replace(b"\n", b"\r\n"),
        "g.zip": as_zip({"__MACOSX/._x.csv": b"x", "x.csv": as_csv(rows)}),
    }


@pytest.mark.parametrize("name", sorted(formats(invented(3))))
def test_every_format_gives_the_same_ratings(tmp_path, name):
    table = invented(3)
    ratings = read_jester([write(tmp_path, name, formats(table)[name])])

    assert np.array_equal(np.where(table[:, 1:] == 99, np.nan, table[:, 1:]), ratings.values, equal_nan=True)
    assert ratings.warnings == []
    assert [source.users for source in ratings.sources] == [3]


def test_99_is_missing_and_never_a_loss(tmp_path):
    ratings = read_jester([write_csv(tmp_path, row(), row("99.00", 4.0))])

    assert ratings.rated == 1
    assert np.isnan(ratings.values[0]).all()
    assert np.abs(ratings.filled(0)).max() <= 10


def test_the_best_rating_is_loss_0_and_the_worst_is_loss_1_and_a_0_is_a_rating(tmp_path):
    """The first row is a user and the first column is none."""
    ratings = read_jester([write_csv(tmp_path, row(10, -10, "-0.00", 5.5), row(1.25))])

    assert ratings.values.shape == (2, JOKES)
    assert ratings.rated == 5
    assert mab_jester(ratings).losses[0, :4].tolist() == [0.0, 1.0, 0.5, 0.225]


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([row(1.0), row(1.0)[:-1]], "row 2: 100 columns, expected 101"),
        ([row(1.0), [], [], row(11.0)], "row 4, column 2: rating"),
        *(
            ([row(1.0), row(2.0), row(1.0, rating)], r"row 3, column 3: rating .* lies outside \[-10, 10\]")
            for rating in ("10.0000001", "-10.5", "99.5", "1e400", "nan", "-99")
        ),
        *(
            ([row(cell)], r"row 1(, column 2: not a number|: 102 columns)")
            for cell in ("joke1", "", "1,5", "0x10", "1_0", "\u0663", "\uff11.5")
        ),
    ],
)
def test_a_wrong_row_is_named_as_it_stands_in_the_file(tmp_path, rows, says):
    with pytest.raises(DataError, match=says):
        read_jester([write_csv(tmp_path, *rows)])


def test_a_count_that_disagrees_is_a_warning_and_the_cells_win(tmp_path):
    ratings = read_jester([write_csv(tmp_path, row(1.0), row(1.0, 2.0, 3.0, count=74))])

    assert ratings.warnings[0].endswith("row 2: says 74 ratings, has 3; the cells count")
    assert ratings.rated == 4


def test_files_are_joined_in_the_order_given(tmp_path):
    one = write_csv(tmp_path, row(1.0), row(2.0), name="one.csv")
    two = write_csv(tmp_path, row(3.0), name="two.csv")

    forward, backward = read_jester([one, two]), read_jester([two, one])

    assert forward.values[:, 0].tolist() == [1.0, 2.0, 3.0]
    assert backward.values[:, 0].tolist() == [3.0, 1.0, 2.0]
    assert [source.name for source in backward.sources] == ["two.csv", "one.csv"]


def test_without_a_file_it_says_what_to_download_and_where():
    with pytest.raises(DataError, match=r"eigentaste\.berkeley\.edu/dataset") as caught:
        read_jester([])
    assert "jester_dataset_1_1.zip" in str(caught.value)
    assert "--data" in str(caught.value)


def test_missing_scores_are_drawn_once_row_by_row_from_the_seed(tmp_path):
    ratings = read_jester([write_csv(tmp_path, row(1.0), row(2.0, 3.0))])
    scores = np.random.default_rng(5).random(2 * JOKES - 3)

    filled = ratings.filled(5)

    assert filled[0, 1:].tolist() == (20 * scores[: JOKES - 1] - 10).tolist()
    assert filled[1, 2:].tolist() == (20 * scores[JOKES - 1 :] - 10).tolist()
    assert np.array_equal(filled, ratings.filled(5))


def test_losses_are_what_the_session_makes_of_the_posted_ratings(tmp_path):
    """The regret and the learner see the same doubles."""
    world = mab_jester(read_jester([write_csv(tmp_path, *invented(20).tolist())]))
    learned = [LossRange(10.0, -10.0).learned(rating) for rating in world.posted.ravel().tolist()]

    assert world.losses.ravel().tolist() == learned
    assert np.allclose(1 - (world.posted + 10) / 20, world.losses, rtol=0, atol=1e-15)


@pytest.mark.slow
def test_the_real_file_has_the_published_shape(real_jester):
    ratings = read_jester([real_jester])

    assert ratings.values.shape == (24_983, 100)
    assert (ratings.rated, ratings.warnings) == (1_810_455, [])
    assert np.nanmean(ratings.values) == pytest.approx(0.8798, abs=5e-5)


@pytest.mark.slow
def test_the_real_stream_has_the_published_best_joke(real_jester):
    world = mab_jester(read_jester([real_jester]))
    best, uniform = world.best_fixed(), world.baseline()

    assert (best.label, best.losses.mean()) == ("joke 50", pytest.approx(0.3168, abs=2e-4))
    assert (uniform.losses - best.losses).mean() == pytest.approx(0.1512, abs=2e-4)
