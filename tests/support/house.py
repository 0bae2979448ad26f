"""What the program is made of, in figures: code lines, files, folders, words."""

import ast
import itertools
import subprocess
import sys
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
GENERATED = {"service/client/blocking.py"}


@cache
def code_lines(path: Path) -> int:
    """Lines of a Python file without docstrings, comments and blank lines."""
    source = path.read_text()
    stripped = map(str.strip, source.split("\n"))
    lines = {number for number, line in enumerate(stripped, 1) if line and not line.startswith("#")}
    docstrings: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant | ast.JoinedStr) and node.end_lineno != node.lineno:
            lines.update(range(node.lineno, node.end_lineno + 1))  # Where a text has blank lines, they are code.
        elif (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            docstrings.update(range(node.lineno, node.end_lineno + 1))
    return len(lines - docstrings)


def files_with_code(folder: str) -> dict[str, int]:
    """Code lines of each file below a folder, generated ones left out."""
    sizes = {path.relative_to(ROOT).as_posix(): code_lines(path) for path in (ROOT / folder).rglob("*.py")}
    return {name: lines for name, lines in sorted(sizes.items()) if lines and name not in GENERATED}


def words_of_docs() -> int:
    """Words of all pages, those beside ``docs`` included."""
    return sum(len(path.read_text().split()) for path in [*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md")])


def requests_traced(store_url: str) -> dict[str, list[tuple[str, str]]]:
    """File and function of each call that an act and a feedback make in the service, in their order."""
    command = [sys.executable, "-m", "tests.support.request_trace", store_url]
    run = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert run.returncode == 0, run.stderr
    calls = [line.split("\t") for line in run.stdout.splitlines() if line.count("\t") == 2]
    return {name: [(file, function) for of, file, function in calls if of == name] for name in ("act", "feedback")}


def figures(calls: list[tuple[str, str]]) -> tuple[int, int, int]:
    """How many functions and files a request passes, and how often it changes file."""
    files = [file for file, _ in calls]
    changes = sum(one != following for one, following in itertools.pairwise(files))
    return len(set(calls)), len(set(files)), changes
