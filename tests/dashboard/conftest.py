"""A real browser, and pages of a real service in it."""

import json
import os
import re
from contextlib import ExitStack

import pytest

from tests.support.http import http_client
from tests.support.programs import program
from tests.support.running import RunningService, create

sync_api = pytest.importorskip("playwright.sync_api", reason="needs the extra browser")

SECONDS = 60
"""What is waited for at most."""


class Seen:
    """A page, and what went wrong in it."""

    def __init__(self, page):
        self.page = page
        self.errors: list[str] = []
        self.hosts: set[str] = set()
        page.set_default_timeout(SECONDS * 1000)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("console", self._note)
        page.on("request", lambda request: self.hosts.add(request.url.split("/")[2]))

    def _note(self, message):
        if message.type == "error":
            self.errors.append(message.text)


@pytest.fixture(scope="module")
def browser():
    """Chromium without a window."""
    with sync_api.sync_playwright() as playwright:
        sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=program("chromium"), args=sandbox)
        yield browser
        browser.close()


@pytest.fixture
def visit(browser):
    """Open an address as a new visitor; at the end no page may have shown an error that the test did not expect."""
    with ExitStack() as stack:
        pages: list[Seen] = []

        def opened(url, **options):
            context = browser.new_context(**options)
            stack.callback(context.close)
            seen = Seen(context.new_page())
            pages.append(seen)
            seen.page.goto(url)
            return seen

        yield opened
        assert [error for seen in pages for error in seen.errors] == []


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


def chart_text(page, chart=SHARE):
    return page.locator(f"{chart} .plot").get_attribute("aria-label")


def wait_for_text(page, locator, pattern):
    """Return the first match, once the text of an element has one."""
    page.wait_for_function(
        "([selector, pattern]) => new RegExp(pattern).test(document.querySelector(selector)?.innerText ?? '')",
        arg=[locator, pattern],
    )
    return re.search(pattern, page.locator(locator).first.inner_text())
