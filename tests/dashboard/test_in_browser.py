"""The dashboard as people use it: in Chromium, with a mouse, a keyboard or a screen reader, wide or narrow."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import pytest

from tests.support.http import http_client
from tests.support.pages import ROOT
from tests.support.running import RunningService, create

pytestmark = [pytest.mark.recipes, pytest.mark.servers("chromium"), pytest.mark.timeout(600)]

ADMIN, READER, CLIENT = (f"{name}-0123456789abcdef" for name in ("admin", "reader", "client"))
KEYS = [{"name": role, "role": role, "key": f"{role}-0123456789abcdef"} for role in ("admin", "reader", "client")]
BALL = {"kind": "dbgd", "dim": 3, "feasible_set": {"kind": "ball", "radius": 1.0}}
DRAWN = ".main-svg"
SHARE = "section:has(h3:text-is('Share of each arm'))"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """A service with API keys."""
    flags = ("--store-url", "memory://", "--api-keys", json.dumps(KEYS))
    with RunningService(tmp_path_factory.mktemp("guarded"), *flags) as running:
        with http_client(running.url, headers={"X-API-Key": ADMIN}) as client:
            running.wait_ready()
            create(client, session_id="s")
        yield running


@pytest.fixture
def client(service):
    with service.client() as client:
        yield client


def play(client, path, count=50):
    """Act and report: only arm 0 is good."""
    for action in client.post(f"{path}/acts", json={"count": count}).json()["actions"]:
        loss = 0 if action["arm"] == 0 else 1
        assert client.post(f"{path}/feedback", json={"arm": action["arm"], "loss": loss}).status_code == 200


def chart_text(page, chart=SHARE):
    return page.locator(f"{chart} .plot").get_attribute("aria-label")


def wait_for_text(page, locator, pattern):
    """Return the first match, once the text of an element has one."""
    page.wait_for_function(
        "([selector, pattern]) => new RegExp(pattern).test(document.querySelector(selector)?.innerText ?? '')",
        arg=[locator, pattern],
    )
    return re.search(pattern, page.locator(locator).first.inner_text())


def axe(page):
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page).response["violations"]
    return [(each["id"], [node["target"] for node in each["nodes"]][:3]) for each in found]


def test_a_session_is_created_used_and_seen_to_learn(visit, service, client):
    page = visit(service.url).page
    page.get_by_role("button", name="New session").click()
    page.get_by_label("Id (made").fill("shop")
    page.get_by_role("dialog").get_by_label("Learner").select_option("dexp3")
    page.get_by_label("Arms: a name").fill("red\nblue\ngreen")
    page.get_by_label("Feedback is in").select_option("loss")
    page.get_by_role("button", name="Create").click()
    page.get_by_role("heading", name="shop", exact=True).wait_for()

    play(client, "/v1/sessions/shop")
    page.wait_for_selector(f"{SHARE} {DRAWN}", state="attached")
    early = page.locator(f"{SHARE} .plot").evaluate("plot => plot.data.find(each => each.name === 'red').y.at(-1)")
    play(client, "/v1/sessions/shop", 300)

    page.wait_for_function(
        "before => document.querySelector('.whole .plot').data.find(each => each.name === 'red').y.at(-1) > before",
        arg=max(early, 0.6),
    )
    assert re.search(r"Largest now: red with \d", chart_text(page))
    assert wait_for_text(page, ".tiles", r"Acts\s+350")


def test_nothing_is_loaded_from_elsewhere(visit, service):
    seen = visit(f"{service.url}/#/sessions/s")
    seen.page.wait_for_selector(DRAWN, state="attached")

    assert seen.hosts == {service.url.split("/")[2]}


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 400])
def test_pages_pass_the_checks_for_accessibility_and_fit(visit, service, client, scheme, width):
    create(client, session_id=f"points-{scheme}-{width}", learner=BALL)
    client.post(f"/v1/sessions/points-{scheme}-{width}/act")
    client.post("/v1/sessions/s/acts", json={"count": 200})
    for path in ("", "sessions/s", f"sessions/points-{scheme}-{width}"):
        page = visit(f"{service.url}/#/{path}", color_scheme=scheme, viewport={"width": width, "height": 800}).page
        page.wait_for_selector(DRAWN if path else "tbody a", state="attached")
        for summary in page.locator("summary").all():
            summary.click()

        assert axe(page) == [], path
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_every_chart_has_its_data_as_a_table(visit, service, client):
    client.post("/v1/sessions/s/act")
    page = visit(f"{service.url}/#/sessions/s").page
    page.wait_for_selector(DRAWN, state="attached")
    charts = page.locator("section.card").all()

    assert len(charts) == 5
    for chart in charts:
        chart.locator("summary").click()
        assert chart.get_by_role("table").get_by_role("columnheader").count() >= 2
    assert "33.3 %" in page.locator(SHARE).get_by_role("table").inner_text()


def test_a_keyboard_sorts_searches_and_opens(visit, service, client):
    for name in ("zebra", "zoo"):
        create(client, session_id=name)
    page = visit(service.url).page
    page.get_by_role("link", name="zoo").wait_for()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.get_by_label("Search in ids").focus()
    page.keyboard.type("z")
    assert page.locator("tbody tr").count() == 2
    page.get_by_role("columnheader", name="Session").get_by_role("button").focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")
    assert page.locator("thead th").first.get_attribute("aria-sort") == "descending"
    assert page.locator("tbody a").all_inner_texts() == ["zoo", "zebra"]
    page.locator("tbody a").first.focus()
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="zoo", exact=True).wait_for()
    assert page.evaluate("document.activeElement.id") == "main"


def test_a_thousand_sessions_and_a_thousand_arms(visit, service, client):
    for number in range(1000):
        create(client, session_id=f"many-{number:04d}")
    create(client, session_id="wide", learner={"kind": "dexp3", "n_arms": 1000})
    client.post("/v1/sessions/wide/acts", json={"count": 500})
    page = visit(service.url).page
    assert wait_for_text(page, ".pager", r"1 to 50 of 10\d\d")
    page.get_by_role("button", name="Next page").click()
    assert wait_for_text(page, ".pager", r"51 to 100 of 10\d\d")
    page.get_by_label("Search in ids").fill("many-0777")
    page.get_by_role("link", name="many-0777").wait_for()
    assert page.locator("tbody tr").count() == 1

    page.goto(f"{service.url}/#/sessions/wide")
    page.get_by_label("Search in arms").wait_for()
    assert wait_for_text(page, ".pager", "1 to 25 of 1000")
    page.get_by_role("columnheader", name="Acts").get_by_role("button").click()
    page.get_by_label("Search in arms").fill("77")
    page.wait_for_selector("tbody th:text-is('777')")
    assert "all others" in page.locator(SHARE).inner_text()
    for number in range(1000):
        client.delete(f"/v1/sessions/many-{number:04d}")


def test_a_point_shows_its_path(visit, service, client):
    create(client, session_id="path", learner=BALL)
    for number in range(3):
        client.post("/v1/sessions/path/act")
        client.post("/v1/sessions/path/feedback", json={"losses": [1.0, 0.5, 0.2, float(number)]})
    page = visit(f"{service.url}/#/sessions/path").page
    path = "section:has(h3:text-is('Path of the point'))"
    page.wait_for_selector(f"{path} {DRAWN}", state="attached")

    assert re.search(r"From -?[\d.]+, -?[\d.]+ to", chart_text(page, path))
    assert "from delayed_bandits import Bandits" in page.locator(".calls").inner_text()


def test_no_mean_is_drawn_before_a_window_has_ended(visit, service, client):
    mean = "section:has(h3:text-is('Mean reward'))"
    for name, seconds in (("early", 3600), ("late", 0.1)):
        expiry = {"after_seconds": seconds, "default_reward": 0}
        create(client, session_id=name, reward_range=[0, 1], expiry=expiry)
        client.post(f"/v1/sessions/{name}/acts", json={"count": 20})
        client.post(f"/v1/sessions/{name}/feedback?on_surplus=skip", json={"arm": 0, "reward": 1})
        page = visit(f"{service.url}/#/sessions/{name}").page
        page.wait_for_selector(f"{SHARE} {DRAWN}", state="attached")
        if name == "late":
            page.wait_for_selector(f"{mean} {DRAWN}", state="attached")
        else:
            page.wait_for_selector(f"section:has(h3:text-is('Mean delay')) {DRAWN}", state="attached")
            assert page.locator(f"{mean} {DRAWN}").count() == 0
        assert "when its window ends" in page.locator(mean).inner_text()


def test_a_mean_is_drawn_where_every_decision_has_an_event(visit, service, client):
    expiry = {"after_seconds": 4, "default_reward": 0}
    create(client, session_id="all", reward_range=[0, 1], expiry=expiry, learner={"kind": "dexp3", "n_arms": 2})
    page = visit(f"{service.url}/#/sessions/all").page
    while page.locator(f"section:has(h3:text-is('Mean reward')) {DRAWN}").count() == 0:
        arm = client.post("/v1/sessions/all/act").json()["arm"]
        client.post("/v1/sessions/all/feedback", json={"arm": arm, "reward": 1})

    assert client.get("/v1/sessions/all").json()["expired"] == 0


def test_an_arm_keeps_its_colour_when_it_is_first(visit, service, client):
    learner = {"kind": "fixed", "n_arms": 3, "probabilities": [1 / 6, 1 / 3, 1 / 2]}
    create(client, session_id="colours", learner=learner)
    client.post("/v1/sessions/colours/act")
    page = visit(f"{service.url}/#/sessions/colours").page
    page.wait_for_selector(f"{SHARE} {DRAWN}", state="attached")
    traces = page.locator(f"{SHARE} .plot").evaluate("plot => plot.data.map(each => [each.name, each.fillcolor])")

    assert traces == [["arm 2", "#2f9e6e"], ["arm 1", "#e08214"], ["arm 0", "#3b7dd8"]]


def test_a_dialog_is_closed_with_its_page(visit, service, client):
    page = visit(f"{service.url}/#/sessions/s").page
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").wait_for()
    page.evaluate("location.hash = '#/'")
    page.get_by_role("heading", name="Sessions").wait_for()

    assert page.get_by_role("dialog").count() == 0


def test_the_python_that_is_copied_counts_each_click(visit, service, client, tmp_path):
    create(client, session_id="copied", learner={"kind": "multiscale_tsallis", "arms": ["a", "b"]})
    page = visit(f"{service.url}/#/sessions/copied").page
    program = page.get_by_role("region", name="Python").inner_text()
    (tmp_path / "delayed_bandits").symlink_to(ROOT / "service")  # the name of the wheel
    loop = f"show = lambda arm: None\nfor visitor in range(3):\n    exec({program!r})\n"
    subprocess.run([sys.executable, "-c", loop], env={**os.environ, "PYTHONPATH": str(tmp_path)}, check=True)

    assert client.get("/v1/sessions/copied").json()["feedbacks"] == 3


def test_an_admin_pauses_and_deletes(visit, service, client):
    create(client, session_id="p", learner={"kind": "multiscale_tsallis", "arms": ["a", "b", "c"]})
    seen = visit(f"{service.url}/#/sessions/p")
    page = seen.page
    page.get_by_role("button", name="pause b").click()
    page.get_by_role("button", name="resume b").wait_for()
    assert client.get("/v1/sessions/p").json()["paused"] == ["b"]
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    page.get_by_role("heading", name="Sessions").wait_for()
    assert client.get("/v1/sessions/p").status_code == 404
    # The page may have asked once more for what was being deleted.
    seen.errors = [error for error in seen.errors if "404 (Not Found)" not in error]


def test_a_refused_creation_says_why(visit, service):
    seen = visit(service.url)
    seen.page.get_by_role("button", name="New session").click()
    seen.page.get_by_label("Arms: a name").fill("same\nsame")
    seen.page.get_by_role("button", name="Create").click()
    assert wait_for_text(seen.page, "dialog .error", "arms")
    seen.errors.clear()  # The browser notes every answer that is no success.


def test_a_deleted_session_is_said_to_be_gone(visit, service):
    seen = visit(f"{service.url}/#/sessions/nothing")
    seen.page.get_by_role("heading", name="There is no such session").wait_for()
    seen.errors.clear()


@pytest.mark.parametrize(("key", "creates"), [(ADMIN, 1), (READER, 0)], ids=["admin", "reader"])
def test_a_key_is_asked_for_and_kept_in_its_tab(visit, guarded, key, creates):
    seen = visit(guarded.url)
    page = seen.page
    page.get_by_label("API key").fill("wrong-0123456789abcdef")
    page.keyboard.press("Enter")
    assert wait_for_text(page, ".error", ".+")
    page.get_by_label("API key").fill(key)
    page.keyboard.press("Enter")
    page.get_by_role("link", name="s", exact=True).wait_for()

    assert page.get_by_role("button", name="New session").count() == creates
    assert page.evaluate("[localStorage.length, document.cookie, sessionStorage.length]") == [0, "", 1]
    page.reload()
    page.get_by_role("link", name="s", exact=True).wait_for()
    page.get_by_role("button", name="Forget the key").click()
    page.get_by_label("API key").wait_for()
    assert page.evaluate("sessionStorage.length") == 0
    seen.errors.clear()


def test_a_client_opens_a_session_by_its_id(visit, guarded):
    seen = visit(guarded.url)
    page = seen.page
    page.get_by_label("API key").fill(CLIENT)
    page.keyboard.press("Enter")
    page.get_by_label("Id of the session").fill("s")
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="s", exact=True).wait_for()
    assert page.get_by_role("button", name="Delete").count() == 0
    seen.errors.clear()


def test_segments_are_a_table(visit, service, client):
    learner = {"kind": "multiscale_tsallis", "arms": ["a", "b"]}
    create(client, session_id="parts", learner=learner, segments={"max": 10})
    for segment in ("north", "south", "south"):
        assert client.post("/v1/sessions/parts/act", json={"segment": segment}).status_code == 200
    page = visit(f"{service.url}/#/sessions/parts").page
    table = page.get_by_role("table", name="Segments")
    table.get_by_role("rowheader", name="south").wait_for()

    assert table.get_by_role("rowheader").all_inner_texts() == ["south", "north"]
