"""The site of the documentation: built without a warning, and served without another host."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.support.pages import PAGES, ROOT

LOADED = re.compile(r"""(?:src|<link[^>]*href)=["'](?:https?:)?//|@import|url\(["']?(?:https?:)?//""")


@pytest.mark.slow
def test_the_site_is_built_without_a_warning_and_loads_nothing_from_elsewhere(tmp_path):
    build = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", "docs", tmp_path]
    built = subprocess.run(build, cwd=ROOT, capture_output=True, text=True)
    files = [path for path in tmp_path.rglob("*") if path.suffix in {".html", ".css", ".js"}]

    assert (built.returncode, built.stderr) == (0, "")
    assert len(list(tmp_path.rglob("*.html"))) >= sum(ROOT / "docs" in page.parents for page in PAGES)
    assert {path.name for path in files if LOADED.search(path.read_text())} == set()
