"""Pages of a real service in a real browser."""

import json
import re

import pytest

from tests.support.http import http_client
from tests.support.running import RunningService, create

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
