"""Clicks that Chromium reports by token from a page of another origin, in each way a page may choose."""

import json
import re
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from tests.dashboard.conftest import ADMIN, KEYS
from tests.support.http import http_client
from tests.support.running import RunningService, create
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.recipes, pytest.mark.servers("chromium"), pytest.mark.timeout(600)]

FETCH = """([url, body, options]) => fetch(url, {method: "POST", body, keepalive: true, ...options})
    .then(answer => [answer.type, answer.status], error => ["refused", 0])"""
EXPECTED = "CORS policy|net::ERR_FAILED|status of 4"
"""What the console says of answers that the page may not read, and of refusals."""
BEACON = "([url, body]) => navigator.sendBeacon(url, body)"


@contextmanager
def page_server(text):
    """Another origin: whatever is asked for is this page."""

    class Page(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_):
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://shop.localhost:{server.server_port}"
        server.shutdown()


@pytest.fixture(params=["listed", "unlisted", "with keys"])
def shop(request, tmp_path, visit):
    """A service, a page of another origin that has loaded its script, and a session with tokens."""
    with page_server("<!doctype html><title>shop</title><a id=there href='#there'>there</a>") as origin:
        flags = ["--store-url", "memory://", "--clicks-per-second", "0"]
        flags += [] if request.param == "unlisted" else ["--allowed-origins", origin]
        flags += ["--api-keys", json.dumps(KEYS)] if request.param == "with keys" else []
        with RunningService(tmp_path, *flags) as service:
            service.wait_ready()
            with http_client(service.url, headers={"X-API-Key": ADMIN}) as client:
                create(client, session_id="s", tokens=True, reward_range=[0, 1])
                goals = {"click": 0.2, "purchase": 1.0}
                create(client, session_id="goals", tokens=True, reward_range=[0, 1], goals=goals)
                yield Shop(request.param != "unlisted", service.url, client, visit(origin))


class Shop:
    def __init__(self, is_listed, url, client, seen):
        self.is_listed, self.url, self.client = is_listed, f"{url}/v1/clicks", client
        self.seen, self.page = seen, seen.page
        self.page.add_script_tag(url=f"{self.url}.js")
        self.clicks = 0

    def token(self, session="s"):
        return self.client.post(f"/v1/sessions/{session}/act").json()["token"]

    def count(self):
        self.clicks += 1
        wait_until(lambda: self.client.get("/v1/sessions/s").json()["feedbacks"] == self.clicks)


def test_each_way_counts_once(shop):
    page, opaque = shop.page, ["opaque", 0]
    assert page.evaluate(BEACON, [shop.url, shop.token()])
    shop.count()
    assert page.evaluate(BEACON, [shop.url, json.dumps({"token": shop.token()})])
    shop.count()
    assert page.evaluate(FETCH, [shop.url, shop.token(), {"mode": "no-cors"}]) == opaque
    shop.count()
    token = shop.token()
    for body in (token, json.dumps([{"token": token}])):
        expected = ["cors", 204] if shop.is_listed else ["refused", 0]
        assert page.evaluate(FETCH, [shop.url, body, {"mode": "cors"}]) == expected
    shop.count()
    with_preflight = {"mode": "cors", "headers": {"Content-Type": "application/json"}}
    answer = page.evaluate(FETCH, [shop.url, json.dumps({"token": shop.token()}), with_preflight])
    assert answer == (["cors", 204] if shop.is_listed else ["refused", 0])
    if shop.is_listed:
        shop.count()
        assert page.evaluate(FETCH, [shop.url, "nothing", {"mode": "cors"}]) == ["cors", 403]
    page.evaluate("token => bandit.click(token)", shop.token())
    shop.count()
    calls = "[bandit.click(), bandit.click(null), bandit.click({}), bandit.click('a', 'b')]"
    assert page.evaluate(f"{calls}.length") == 4
    page.evaluate("navigator.sendBeacon = () => false")
    page.evaluate("token => bandit.click(token)", shop.token())
    shop.count()
    shop.seen.errors = [error for error in shop.seen.errors if not re.search(EXPECTED, error)]


def test_elements_report_their_own_clicks(shop):
    page = shop.page
    added = "([html]) => document.body.insertAdjacentHTML('beforeend', html)"
    page.evaluate(added, [f"<p data-bandit-token='{shop.token()}'><b id=inner>look</b> <i id=other>there</i></p>"])
    page.locator("#inner").click()
    page.locator("#other").click()
    shop.count()
    page.evaluate("token => { there.dataset.banditToken = token }", shop.token())
    page.locator("#there").click()
    shop.count()
    bought = f"<button id=buy data-bandit-goal=purchase data-bandit-token='{shop.token('goals')}'>buy</button>"
    page.evaluate(added, [bought])
    page.locator("#buy").click()
    page.evaluate("token => bandit.click(token, 'click')", shop.token("goals"))
    wait_until(lambda: shop.client.get("/v1/sessions/goals").json()["mean_reward"] == 0.6)
    page.evaluate(added, [f"<a id=away href='/elsewhere' data-bandit-token='{shop.token()}'>away</a>"])
    page.locator("#away").click()  # The page is left at once.
    shop.count()
