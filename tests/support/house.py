"""What the program is made of, in figures: code lines, files, folders, words."""

import ast
import io
import itertools
import subprocess
import sys
import tokenize
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
NOT_CODE = {
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
}
GENERATED = {"service/client/blocking.py"}


@cache
def code_lines(path: Path) -> int:
    """Lines of a Python file without docstrings, comments and blank lines."""
    source = path.read_text()
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in NOT_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(source)):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            lines.difference_update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(lines)


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
