"""Fixtures ``browser`` and ``visit``: a real browser, and what goes wrong in its pages."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.support.programs import program

SECONDS = 60
"""What is waited for at most."""


class Seen:
    """A page, and what went wrong in it."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.errors: list[str] = []
        self.hosts: set[str] = set()
        page.set_default_timeout(SECONDS * 1000)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("console", self._note)
        page.on("request", lambda request: self.hosts.add(request.url.split("/")[2]))

    def _note(self, message: Any) -> None:
        if message.type == "error":
            self.errors.append(message.text)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium without a window; a test skips where it or the extra is missing."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="needs the extra browser")
    with sync_api.sync_playwright() as playwright:
        sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=program("chromium"), args=sandbox)
        yield browser
        browser.close()


@pytest.fixture
def visit(browser: Any) -> Iterator[Callable[..., Seen]]:
    """Open an address as a new visitor; at the end no page may have shown an error that the test did not expect."""
    with ExitStack() as stack:
        pages: list[Seen] = []

        def opened(url: str, **options: Any) -> Seen:
            context = browser.new_context(**options)
            stack.callback(context.close)
            seen = Seen(context.new_page())
            pages.append(seen)
            seen.page.goto(url)
            return seen

        yield opened
        assert [error for seen in pages for error in seen.errors] == []
