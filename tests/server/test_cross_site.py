"""A service without API keys, and what other sites' pages make a browser send to it."""

from __future__ import annotations

import pytest

from tests.support.connections import answers, connected, ends, request

ACT = request("/v1/sessions/s/act")


def slot(service):
    with service.client() as client:
        return client.get("/v1/sessions/s").json()["slot"]


@pytest.mark.parametrize(
    ("sent", "status", "code"),
    [
        (ACT.replace(b"localhost", b"evil.example"), 421, "foreign_host"),
        (ACT.replace(b"POST /", b"POST http://evil.example/"), 421, "foreign_host"),
        (request("/v1/sessions/s/act", headers=b"Origin: null\r\n"), 403, "cross_site"),
        (request("/v1/sessions/s/act", headers=b"oRIGIN: https://evil.example\r\n"), 403, "cross_site"),
        (request("/v1/sessions/s/act", headers=b"Sec-Fetch-Site: cross-site\r\n"), 403, "cross_site"),
    ],
)
def test_they_are_refused_and_nothing_is_done(service, sent, status, code):
    before = slot(service)
    with connected(service) as connection:
        connection.sendall(sent)
        (answer,) = answers(connection, 1)
        assert ends(connection)

    assert (answer.status, answer.json["code"]) == (status, code)
    assert answer.headers["content-type"] == "application/problem+json"
    assert slot(service) == before
    assert answer.headers["x-request-id"] in service.text()


def test_what_no_browser_sends_is_served(service):
    with connected(service) as connection:
        connection.sendall(b"GET /livez HTTP/1.0\r\n\r\n")
        (answer,) = answers(connection, 1)

    assert answer.status == 200
