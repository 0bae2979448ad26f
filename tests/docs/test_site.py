"""The site of the documentation: no warning, no link to nowhere, and a real browser finds its way in it."""

import json
import re
import shutil
import subprocess
import sys
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote

import pytest

from service import __version__
from tests.dashboard.test_charts import axe
from tests.support.pages import PAGES, ROOT

LOADED = re.compile(r"""(?:src|<link[^>]*href)=["'](?:https?:)?//|@import|url\(["']?(?:https?:)?//""")
OLDER = ("0.9.0/index.html", "0.9.0/verdict.html", "99.0.0rc1/index.html", "notes/index.html")
in_browser = [pytest.mark.recipes, pytest.mark.servers("chromium"), pytest.mark.timeout(600)]


def build(folder, root=ROOT):
    return subprocess.run([sys.executable, root / "docs/build.py", folder], capture_output=True, text=True)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Pages of this version, built beside those of an older one, a pre-release, and a folder of no version."""
    folder = tmp_path_factory.mktemp("site")
    for name in OLDER:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(f"<!DOCTYPE html><link rel='icon' href='data:,'><h1>{name}</h1>")
    built = build(folder)
    assert (built.returncode, built.stderr) == (0, "")
    return folder


@pytest.mark.slow
def test_the_site_has_a_folder_for_each_version_and_leads_to_the_newest(site):
    assert json.loads((site / "versions.json").read_text()) == ["99.0.0rc1", __version__, "0.9.0"]
    assert f'url={__version__}/index.html"' in (site / "index.html").read_text()
    assert (site / __version__ / "openapi.json").read_bytes() == (ROOT / "docs/openapi.json").read_bytes()
    assert {name: (site / name).is_file() for name in OLDER} == dict.fromkeys(OLDER, True)


@pytest.mark.slow
def test_no_link_of_the_site_leads_nowhere_and_nothing_is_loaded_from_elsewhere(site):
    files = [path for path in (site / __version__).rglob("*") if path.suffix in {".html", ".css", ".js"}]
    pages = {path.resolve(): path.read_text() for path in files if path.suffix == ".html"}
    names = {path: set(re.findall(r'\bid="([^"]+)"', text)) | {""} for path, text in pages.items()}
    wrong = set()
    for page, text in pages.items():
        for link in re.findall(r'\b(?:href|src)="(?!\w+:)([^"?]*)', re.sub("(?s)<pre>.*?</pre>", "", text)):
            target, _, name = unquote(link).partition("#")
            path = (page.parent / target).resolve() if target else page
            if not path.is_file() or name not in names.get(path, {""}):
                wrong.add(f"{page.name}: {link}")

    assert wrong == set()
    assert len(pages) >= sum(ROOT / "docs" in page.parents for page in PAGES)
    assert {path.name for path in files if LOADED.search(path.read_text())} == set()


@pytest.mark.slow
def test_a_link_to_nowhere_ends_the_build_and_leaves_the_site_as_it_was(tmp_path):
    docs = tmp_path / "docs"
    shutil.copytree(ROOT / "docs", docs, ignore=shutil.ignore_patterns("*.md", "results"))
    shutil.copytree(ROOT / "service/dashboard", tmp_path / "service/dashboard")
    (tmp_path / "service/__init__.py").write_text('__version__ = "2.0.0"\n')
    (docs / "index.md").write_text("# Pages\n\n[Look](nowhere.md)\n")
    broken = build(tmp_path / "site", tmp_path)
    assert broken.returncode != 0
    assert "nowhere.md" in broken.stderr
    assert not (tmp_path / "site").exists()

    (docs / "index.md").write_text("# Pages\n")
    assert build(tmp_path / "site", tmp_path).returncode == 0
    assert json.loads((tmp_path / "site/versions.json").read_text()) == ["2.0.0"]


class Server(ThreadingHTTPServer):
    request_queue_size = 64  # A browser opens many connections at once.


@pytest.fixture(scope="module")
def address(site):
    """Of a server of plain files, which knows the site by a path of its own."""
    with Server(("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory=site.parent)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/{site.name}"
        server.shutdown()


class TestInABrowser:
    pytestmark = in_browser

    @pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 1280), ("light", 390), ("dark", 390)])
    def test_a_reader_searches_and_sees_the_dashboard(self, visit, address, scheme, width):
        seen = visit(f"{address}/index.html", color_scheme=scheme, viewport={"width": width, "height": 800})
        page = seen.page
        page.wait_for_url(f"{address}/{__version__}/index.html")
        page.wait_for_function("document.querySelector('article img')?.naturalWidth > 300")
        page.wait_for_function("document.querySelector('#versions').options.length === 3")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        light = page.evaluate("Math.min(...getComputedStyle(document.body).backgroundColor.match(/\\d+/g))")
        assert (light > 127) is (scheme == "light")
        assert [each for each in axe(page) if each[0] != "aria-required-attr"] == []  # Of the theme's captions.

        if width < 400:
            page.locator("label.nav-overlay-icon").click()
        assert page.locator("#versions").is_visible()
        page.locator(".sidebar-search").fill("verdict")
        page.keyboard.press("Enter")
        page.wait_for_selector("ul.search a[href^='verdict.html']")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        page.locator("ul.search a[href^='verdict.html']").first.click()
        page.wait_for_selector("h1:has-text('Is it better than what we had?')")
        assert len(seen.hosts) == 1

    def test_a_reader_changes_to_the_same_page_of_another_version_or_to_its_first(self, visit, address):
        for name, leads_to in (("verdict.html", "verdict.html"), ("examples/README.html", "index.html")):
            seen = visit(f"{address}/{__version__}/{name}")
            seen.page.locator("#versions option").nth(2).wait_for(state="attached")
            assert seen.page.locator("#versions").input_value() == __version__
            seen.page.locator("#versions").select_option("0.9.0")
            seen.page.wait_for_selector(f"h1:has-text('0.9.0/{leads_to}')")
            assert all("404" in error for error in seen.errors)
            seen.errors.clear()
