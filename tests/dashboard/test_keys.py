"""The dashboard of a service with API keys."""

from __future__ import annotations

import pytest

from tests.dashboard.conftest import ADMIN, CLIENT, READER, wait_for_text

pytestmark = [pytest.mark.recipes, pytest.mark.servers("chromium"), pytest.mark.timeout(600)]


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
