"""The README stays short and begins with the two commands; links on all pages lead somewhere."""

from __future__ import annotations

import re

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
