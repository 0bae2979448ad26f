"""Sessions as people use them in Chromium, with and without an API key, and the code that is copied."""

import os
import re
import subprocess
import sys

import pytest

from tests.dashboard.conftest import ADMIN, CLIENT, DRAWN, READER, SHARE, chart_text, wait_for_text
from tests.support.pages import ROOT
from tests.support.running import create

pytestmark = [pytest.mark.recipes, pytest.mark.servers("chromium"), pytest.mark.timeout(600)]


def play(client, path, count=50):
    """Act and report: only arm 0 is good."""
    for action in client.post(f"{path}/acts", json={"count": count}).json()["actions"]:
        loss = 0 if action["arm"] == 0 else 1
        assert client.post(f"{path}/feedback", json={"arm": action["arm"], "loss": loss}).status_code == 200


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
        "than => document.querySelector('.charts .plot').data.find(each => each.name === 'red').y.at(-1) > than",
        arg=max(early, 0.6),
    )
    assert re.search(r"Largest now: red with \d", chart_text(page))
    assert wait_for_text(page, ".tiles", r"Acts\s+350")


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


def test_goals_are_counted_on_the_page_of_their_session(visit, service, client):
    goals = {"click": 0.2, "purchase": 1}
    create(client, session_id="funnel", learner={"kind": "fixed", "n_arms": 2}, reward_range=[0, 1], goals=goals)
    arm = client.post("/v1/sessions/funnel/act").json()["arm"]
    client.post("/v1/sessions/funnel/feedback", json={"arm": arm, "goal": "purchase"})
    page = visit(f"{service.url}/#/sessions/funnel").page

    assert wait_for_text(page, ".tiles", r"Goal click\s+0\s*Goal purchase\s+1")
    client.patch("/v1/sessions/funnel", json={"goals": {"visit": 0.1, "purchase": 1}})
    assert wait_for_text(page, ".tiles", r"Goal visit\s+0\s*Goal purchase\s+1")
