"""Charts and tables of a session as they are drawn, also with a keyboard or a screen reader, wide or narrow."""

import re

import pytest

from tests.dashboard.conftest import BALL, DRAWN, SHARE, chart_text, wait_for_text
from tests.support.running import create

pytestmark = [pytest.mark.recipes, pytest.mark.servers("chromium"), pytest.mark.timeout(600)]


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


def test_segments_are_a_table(visit, service, client):
    learner = {"kind": "multiscale_tsallis", "arms": ["a", "b"]}
    create(client, session_id="parts", learner=learner, segments={"max": 10})
    for segment in ("north", "south", "south"):
        assert client.post("/v1/sessions/parts/act", json={"segment": segment}).status_code == 200
    page = visit(f"{service.url}/#/sessions/parts").page
    table = page.get_by_role("table", name="Segments")
    table.get_by_role("rowheader", name="south").wait_for()

    assert table.get_by_role("rowheader").all_inner_texts() == ["south", "north"]


FEATURES = {"age": {"kind": "number", "range": [18, 80]}, "phone": {"kind": "boolean"}}


def test_features_are_a_chart_and_a_table(visit, service, client):
    learner = {"kind": "multiscale_tsallis", "arms": ["a", "b"]}
    create(client, session_id="visitors", learner=learner, features=FEATURES)
    for said in ({"age": 90, "phone": True}, {"age": 20}):
        assert client.post("/v1/sessions/visitors/act", json={"features": said}).status_code == 200
    page = visit(f"{service.url}/#/sessions/visitors").page
    weight = "section:has(h3:text-is('Weight of features'))"
    page.wait_for_selector(f"{weight} {DRAWN}", state="attached")
    table = page.get_by_role("table", name="Features")
    table.get_by_role("rowheader", name="phone").wait_for()

    assert re.search(r"\d+\.\d % now", chart_text(page, weight))
    head = table.get_by_role("columnheader", name="Out of range").get_by_role("button")
    head.focus()
    page.keyboard.press("Enter")
    rows = [row.split("\t") for row in table.locator("tbody").inner_text().splitlines()]
    assert rows == [["age", "1", "0.0 %", "50.0 %"], ["phone", "1", "50.0 %", "0.0 %"]]


def axe(page):
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page).response["violations"]
    return [(each["id"], [node["target"] for node in each["nodes"]][:3]) for each in found]


def test_nothing_is_loaded_from_elsewhere(visit, service):
    seen = visit(f"{service.url}/#/sessions/s")
    seen.page.wait_for_selector(DRAWN, state="attached")

    assert seen.hosts == {service.url.split("/")[2]}


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_pages_pass_the_checks_for_accessibility_and_fit(visit, service, client, scheme, width):
    create(client, session_id=f"points-{scheme}-{width}", learner=BALL)
    client.post(f"/v1/sessions/points-{scheme}-{width}/act")
    client.post("/v1/sessions/s/acts", json={"count": 200})
    learner = {"kind": "multiscale_tsallis", "arms": ["a", "b"]}
    create(client, session_id=f"visitors-{scheme}-{width}", learner=learner, features=FEATURES)
    client.post(f"/v1/sessions/visitors-{scheme}-{width}/act", json={"features": {"age": 90}})
    for path in ("", "sessions/s", f"sessions/points-{scheme}-{width}", f"sessions/visitors-{scheme}-{width}"):
        page = visit(f"{service.url}/#/{path}", color_scheme=scheme, viewport={"width": width, "height": 800}).page
        page.wait_for_selector(DRAWN if path else "tbody a", state="attached")
        for summary in page.locator("summary:visible").all():
            summary.click()

        assert axe(page) == [], path
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_every_chart_has_its_data_as_a_table(visit, service, client):
    client.post("/v1/sessions/s/act")
    page = visit(f"{service.url}/#/sessions/s").page
    page.wait_for_selector(DRAWN, state="attached")
    charts = page.locator("section.card:not(.verdict)").all()

    assert len(charts) == 6
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
