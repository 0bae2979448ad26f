"""The page at the address of the service, as HTTP; tests/dashboard tries it in a browser."""

import json
import re
from html.parser import HTMLParser

import pytest

from service.api.routes import service_routes as dashboard
from service.settings import SecretText

BROWSER = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
FILES = sorted(path for path in dashboard.FOLDER.rglob("*") if path.is_file())
ASSETS = [path.relative_to(dashboard.FOLDER / "assets") for path in FILES if path.name != "index.html"]
TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
KEYS = [{"name": "board", "role": "reader", "key": "reader-0123456789abcdef", "session_prefix": "shop-"}]


class Tags(HTMLParser):
    """The tags of a page, and the text within scripts and styles."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))


async def test_browsers_get_a_page(client):
    answer = await client.get("/", headers=BROWSER)

    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert "<main" in answer.text


async def test_others_get_an_index_whose_addresses_are_served(client):
    accepted = ({}, {"Accept": "application/json"}, {"Accept": "*/*"})
    index, *others = [(await client.get("/", headers=headers)).json() for headers in accepted]

    assert others == [index] * 2
    assert [(await client.get(path)).status_code for path in index.values()] == [200] * len(index) != []


async def test_the_page_runs_only_what_is_served_from_here(client):
    page = await client.get("/", headers=BROWSER)
    policy = dict(part.strip().split(" ", 1) for part in page.headers["content-security-policy"].split(";"))
    tags = Tags(page.text).found

    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert policy["default-src"] == policy["frame-ancestors"] == policy["base-uri"] == "'none'"
    assert not [tag for tag, has in tags if tag == "style" or (tag == "script" and "src" not in has)]
    assert not [name for _, has in tags for name in has if name == "style" or name.startswith("on")]
    addresses = {has.get("src") or has.get("href") for tag, has in tags if tag in ("script", "link", "img")}
    assert {(await client.get(f"/{each}")).status_code for each in addresses} == {200}
    assert not [each for each in addresses if each.startswith("/")], "they are relative to the page"


@pytest.mark.parametrize("path", ASSETS, ids=str)
async def test_files_are_served_with_their_type_and_are_asked_for_again(client, path):
    answer = await client.get(f"/dashboard-assets/{path}")
    again = await client.get(f"/dashboard-assets/{path}", headers={"If-None-Match": answer.headers["etag"]})

    assert answer.headers["content-type"].partition(";")[0] == TYPES[path.suffix]
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"] == "no-cache"
    assert again.status_code == 304


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_files_name_no_other_host(path):
    allowed = {"http://www.w3.org/2000/svg"}

    assert set(re.findall(r"https?://[^\s\"'<>`)]+", path.read_text())) <= allowed


@pytest.mark.parametrize("path", [path for path in FILES if path.suffix == ".js"], ids=lambda path: path.name)
def test_modules_import_what_is_there(path):
    for names, module in re.findall(r"import \{([^}]+)\} from \"\./([\w.]+)\"", path.read_text()):
        text = (path.parent / module).read_text()
        exported = set(re.findall(r"export (?:async )?(?:function|const|class) (\w+)", text))
        exported |= {name.strip() for group in re.findall(r"export \{([^}]+)\}", text) for name in group.split(",")}
        assert {name.strip() for name in names.split(",")} <= exported


async def test_the_chart_library_comes_from_its_package(client):
    answer = await client.get("/dashboard-assets/plotly.min.js")

    assert answer.content == (dashboard.charts_folder() / "plotly.min.js").read_bytes()
    assert (await client.get("/dashboard-assets/widgetbundle.js")).status_code == 404
    assert (await client.get("/dashboard-assets/..%2findex.html")).status_code == 404


async def test_without_the_package_the_page_says_how_to_get_it(client, monkeypatch):
    monkeypatch.setattr(dashboard, "find_spec", lambda _: None)
    dashboard.charts_folder.cache_clear()
    try:
        page = await client.get("/", headers=BROWSER)
        charts = await client.get("/dashboard-assets/plotly.min.js")
    finally:
        dashboard.charts_folder.cache_clear()

    assert "pip install 'delayed-bandits[dashboard]'" in page.text
    assert len(page.text.splitlines()) == 1
    assert charts.status_code == 404


async def test_it_can_be_turned_off(make_client):
    answer = await (await make_client(dashboard=False)).get("/", headers=BROWSER)

    assert (answer.status_code, answer.headers["location"]) == (307, "docs")


async def test_the_page_needs_no_key_and_its_data_does(make_client):
    client = await make_client(api_keys=SecretText(json.dumps(KEYS)))

    assert (await client.get("/", headers=BROWSER)).status_code == 200
    assert (await client.get("/v1/key")).status_code == 401
    key = await client.get("/v1/key", headers={"X-API-Key": KEYS[0]["key"]})
    assert key.json() == {"name": "board", "role": "reader", "session_prefix": "shop-"}


async def test_without_keys_everybody_may_do_everything(client):
    assert (await client.get("/v1/key")).json() == {"name": None, "role": "admin", "session_prefix": ""}


def test_there_is_nothing_of_others_in_the_folder():
    """Libraries come with their packages."""
    assert sum(path.stat().st_size for path in FILES) < 100_000
    assert not [path for path in FILES if max(map(len, path.read_text().splitlines())) > 400]
