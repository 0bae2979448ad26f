"""What commands print, into a pipe and on a terminal."""

import io
import subprocess
import sys

from rich.console import Console

from loadtest import terminal

FIGURES = [f"{number},{number:03}.25" for number in range(101, 121)]


HEAD, ROW = ("target", *FIGURES), ("a_target_of_the_service", *FIGURES)


def test_a_pipe_gets_each_row_of_a_table_in_one_line():
    program = (
        f"from {__name__} import HEAD, ROW; from loadtest.terminal import print_table; print_table('', HEAD, [ROW])"
    )
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout

    (row,) = [line for line in printed.splitlines() if "a_target_of_the_service" in line]
    assert [word for word in row.split() if "," in word] == FIGURES


def test_a_narrow_terminal_gets_all_characters(monkeypatch):
    printed = io.StringIO()
    monkeypatch.setattr(terminal, "console", Console(file=printed, width=120))
    terminal.print_table("", HEAD, [ROW])

    assert "…" not in printed.getvalue()
    digits = sum(character.isdigit() for character in printed.getvalue())
    assert digits == 2 * sum(character.isdigit() for figure in FIGURES for character in figure)
