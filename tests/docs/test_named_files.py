"""Files and folders of the project that the pages name in backticks exist."""

from __future__ import annotations

import re
from fnmatch import fnmatch

import pytest

from tests.support.pages import PAGES, ROOT, name_of

FOLDERS = ("service", "loadtest", "tests", "docs", "deploy", ".ci")
NAME = re.compile(
    r"""`( (?:[\w.<>-]+/)* [\w.<>-]+ \. (?:py|lua|md|toml|lock|ya?ml|conf)   # a file, with or without its folders
         | (?:service|loadtest|tests|docs|deploy|\.ci) / [\w./<>-]*          # a file or a folder, from the root
         )`""",
    re.X,
)
TEST = re.compile(r"`(tests/[\w/]+\.py)(?:::(test_\w+))`")
EXISTING = {
    f"/{path.relative_to(ROOT).as_posix()}"
    for folder in FOLDERS
    for path in [ROOT / folder, *(ROOT / folder).rglob("*")]
    if "__pycache__" not in path.parts
} | {f"/{path.name}" for path in ROOT.iterdir()}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_named_files_exist(page):
    names = set(NAME.findall(page.read_text()))

    assert {name for name in names if not exists(name)} == set()


def test_named_tests_exist():
    named = {match for page in PAGES for match in TEST.findall(page.read_text())}

    assert len(named) > 10
    assert {(file, test) for file, test in named if f"def {test}(" not in (ROOT / file).read_text()} == set()


@pytest.mark.parametrize(
    ("name", "there"),
    [
        ("service/commit/batch.py", True),
        ("commit/batch.py", True),
        ("batch.py", True),
        ("service/commit/", True),
        ("tests/vectors/<kind>.json", True),
        ("service/batch.py", False),
        ("atch.py", False),
        ("service/pieces/", False),
        ("tests/vectors/<kind>.py", False),
    ],
)
def test_a_name_is_the_end_of_a_path(name, there):
    assert NAME.fullmatch(f"`{name}`")
    assert exists(name) is there


def exists(name):
    """Whether a path of the project ends with this one; ``<...>`` stands for any text."""
    pattern = "*/" + re.sub(r"<\w+>", "*", name.rstrip("/"))
    return any(fnmatch(path, pattern) for path in EXISTING)
