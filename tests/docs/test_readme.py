"""The README stays short and begins with two commands; what pages link and name is there."""

import re
from fnmatch import fnmatch

import pytest

from loadtest.day import lines_of, simulate
from tests.support.pages import PAGES, ROOT, blocks_of, name_of

README = ROOT / "README.md"


def test_the_readme_has_at_most_180_lines_and_its_tour_60():
    text = README.read_text()
    tour = text.split("\n## A tour")[1].split("\n## ")[0]

    assert len(text.splitlines()) <= 180
    assert len(tour.splitlines()) <= 60


def test_the_first_two_commands_start_and_test_the_service():
    commands = [block.text for block in blocks_of(README) if block.language == "sh"][:2]

    assert commands == ["pip install '.[embedded]' && python -m service\n", "pip install '.[test]' && pytest\n"]


def test_the_day_is_what_the_command_prints():
    printed = next(block.text for block in blocks_of(README) if block.language == "text")

    assert printed.splitlines() == list(lines_of(simulate(0)))


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_linked_files_and_headings_exist(page):
    for target, heading in re.findall(r"\]\(([^)#:]*)(?:#([^)]*))?\)", page.read_text()):
        path = (page.parent / target) if target else page
        assert path.exists(), target
        assert not heading or heading in anchors(path), f"{target}#{heading}"


def anchors(page):
    """What GitHub makes of the page's headings."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_index_lists_every_page():
    index = (ROOT / "docs/README.md").read_text()
    pages = {page.name for page in (ROOT / "docs").glob("*.md")} - {"README.md", "index.md"}

    assert {name for name in pages if f"({name})" not in index} == set()


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
        *((name, True) for name in ("service/commit/batch.py", "commit/batch.py", "batch.py", "service/commit/")),
        *((name, False) for name in ("service/batch.py", "atch.py", "service/pieces/", "tests/vectors/<kind>.py")),
        ("tests/vectors/<kind>.json", True),
    ],
)
def test_a_name_is_the_end_of_a_path(name, there):
    assert NAME.fullmatch(f"`{name}`")
    assert exists(name) is there


def exists(name):
    """Whether a path of the project ends with this one; ``<...>`` stands for any text."""
    pattern = "*/" + re.sub(r"<\w+>", "*", name.rstrip("/"))
    return any(fnmatch(path, pattern) for path in EXISTING)
