"""docs/architecture.md names every file that an act and a feedback pass, and every arrow between folders."""

from __future__ import annotations

import re

import pytest

from tests.support.pages import ROOT, rows
from tests.test_imports import ARROWS, LEAVES

PAGE_NAME = "docs/architecture.md"
PAGE = (ROOT / PAGE_NAME).read_text()


@pytest.mark.parametrize("request_", ["act", "feedback"])
def test_every_file_that_a_request_passes_is_named(passed, request_):
    named = set(re.findall(r"`([\w/]+\.py)`", PAGE))

    assert {file for file, _ in passed[request_]} - named == set()


def test_the_table_of_folders_has_every_arrow():
    """As ``tests/test_imports.py`` has them."""
    told = {}
    for line in rows(PAGE_NAME, "folder or file", "imports", "holds"):
        name, imports, _ = [cell.strip() for cell in line.split("|")[1:-1]]
        told[re.sub(r"`|/|\.py", "", name)] = set(imports.replace("`", "").split(", ")) - {""}

    assert {name for name, imports in told.items() if "leaf" in imports} == LEAVES
    assert {name: imports - {"leaf"} for name, imports in told.items()} == ARROWS | {"dashboard": set()}
    assert {path.name for path in (ROOT / "service").iterdir() if path.is_dir()} - {"__pycache__"} <= told.keys()
