"""The dashboard with a keyboard or a screen reader, wide or narrow, and without any other host."""

from __future__ import annotations

import pytest

from tests.dashboard.conftest import BALL, DRAWN, SHARE
from tests.support.running import create

pytestmark = [pytest.mark.recipes, pytest.mark.servers("chromium"), pytest.mark.timeout(600)]


def axe(page):
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page).response["violations"]
    return [(each["id"], [node["target"] for node in each["nodes"]][:3]) for each in found]


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
