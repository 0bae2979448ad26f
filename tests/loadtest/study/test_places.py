"""Places of a page: each way shows three different items, and the command writes its table between two comments."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from loadtest.commands import app
from loadtest.commands.places import BEGIN, END, replaced
from loadtest.errors import LoadTestError
from loadtest.study.places import WAYS, simulate


@pytest.mark.parametrize("way", ["each", "uniform"])
def test_shares_are_of_the_best_page(way: str) -> None:
    share = simulate(way, 2, 20)

    assert 30 < share.mean < 101
    assert share.last > 30


def test_a_block_is_replaced_and_nothing_else() -> None:
    assert replaced(f"a\n{BEGIN}\nold\n{END}\nz", "new") == f"a\n{BEGIN}\n\nnew\n\n{END}\nz"
    with pytest.raises(LoadTestError):
        replaced("a page of something else", "new")


@pytest.mark.slow
def test_the_command_writes_the_table(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"{BEGIN}\n{END}\n")
    done = CliRunner().invoke(app, ["places", "--seeds", "2", "--slots", "40", "--page", str(page)])

    assert done.exit_code == 0, done.output
    assert all(name in page.read_text() for name in WAYS)
