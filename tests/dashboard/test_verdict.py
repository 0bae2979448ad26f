"""The verdict that the page of a session begins with, intervals, removed arms by their names, and a halt."""

import re

import pytest

from tests.dashboard.conftest import DRAWN, SHARE, chart_text, wait_for_text
from tests.dashboard.test_charts import axe
from tests.support.running import create

pytestmark = [pytest.mark.recipes, pytest.mark.servers("chromium"), pytest.mark.timeout(600)]

ARMS = "section:has(h3:text-is('How good each arm is'))"
SHOP = {"learner": {"kind": "multiscale_tsallis", "arms": ["hat", "scarf", "shoes"]}, "reward_range": [0, 1]}
SHOP |= {"expiry": {"after_seconds": 3600, "default_reward": 0}, "control": {"share": 0.5}}


def play(client, session_id, clicks, rounds=10):
    """Let visitors come who click on what ``clicks`` says of an action; two of three of them."""
    for _ in range(rounds):
        actions = client.post(f"/v1/sessions/{session_id}/acts", json={"count": 60}).json()["actions"]
        clicked = [each for number, each in enumerate(actions) if number % 3 and clicks(each)]
        events = [{"label": each["label"], "group": each["group"], "reward": 1} for each in clicked]
        answer = client.post(f"/v1/sessions/{session_id}/feedbacks", json={"events": events})
        assert answer.status_code == 200, answer.text


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 390)])
def test_a_session_begins_with_its_verdict(visit, service, client, scheme, width):
    create(client, session_id=f"shop-{width}", **SHOP)
    play(client, f"shop-{width}", lambda action: action["label"] == "shoes")
    client.patch(f"/v1/sessions/shop-{width}/arms", json={"remove": ["hat"]})
    address, viewport = f"{service.url}/#/sessions/shop-{width}", {"width": width, "height": 800}
    page = visit(address, color_scheme=scheme, viewport=viewport).page
    lead = wait_for_text(page, ".verdict .lead", r"Better by [\d.]+ points, between [\d.]+ and [\d.]+$")
    page.wait_for_selector(f"{ARMS} {DRAWN}", state="attached")

    assert page.locator("main section").first.get_attribute("aria-label") == "Verdict"
    assert page.locator(".interval").get_attribute("aria-label").startswith(lead[0])
    groups = page.get_by_role("table", name="Groups").locator("tbody tr").all_inner_texts()
    assert [row.split()[0] for row in groups] == ["learner", "control"]
    assert re.search(r"shoes, the most probable, has 0\.\d+, between 0\.\d+ and 0\.\d+", chart_text(page, ARMS))
    assert re.search(r"Most probable arm: shoes .* clearly better", page.locator(".verdict").inner_text())
    assert float(wait_for_text(page, ".tiles", r"Mean reward so far\s+(0\.\d+)")[1]) < 0.7
    arms = page.get_by_role("table", name="Arms", exact=True).locator("tbody tr")
    assert any(re.match(r"hat\s+removed", row) for row in arms.all_inner_texts())
    names = page.locator(f"{SHARE} .plot").evaluate("plot => plot.data.map(each => each.name)")
    assert "shoes" in names
    assert not [name for name in names if re.match("trace|arm|removed", name)]

    page.locator(".verdict summary").focus()
    page.keyboard.press("Enter")
    assert page.get_by_role("link", name="the API").is_visible()
    assert axe(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_an_admin_lets_a_halted_session_go_on(visit, service, client):
    create(client, session_id="bad", guard={"tolerance": 0.05}, **SHOP)
    play(client, "bad", lambda action: action["group"] == "control")
    page = visit(f"{service.url}/#/sessions/bad").page
    assert wait_for_text(page, ".urgent", "Halted since")
    assert wait_for_text(page, ".verdict .lead", r"Worse by [\d.]+ points")
    assert axe(page) == []
    page.get_by_role("button", name="Let the learner go on").focus()
    page.keyboard.press("Enter")
    page.wait_for_selector(".urgent", state="hidden")

    assert "halted_at" not in client.get("/v1/sessions/bad").json()
    assert wait_for_text(page, ".verdict .lead", "No verdict yet")


def test_without_a_control_group_the_page_says_how_to_get_one(visit, service, client):
    create(client, session_id="alone", **SHOP | {"control": None})
    page = visit(f"{service.url}/#/sessions/alone").page

    assert wait_for_text(page, ".verdict", r'No control group\s+.*PATCH /v1/sessions/\{id\} and \{"control"')


def test_silence_is_said_before_the_verdict(visit, service, client):
    create(client, session_id="quiet", **SHOP | {"expiry": {"after_seconds": 2, "default_reward": 0}})
    play(client, "quiet", lambda _: True, 3)
    assert client.post("/v1/sessions/quiet/acts", json={"count": 100}).status_code == 200
    page = visit(f"{service.url}/#/sessions/quiet").page

    assert wait_for_text(page, ".urgent .silence", "Look at what posts the clicks")
    assert axe(page) == []
