"""What a connection reads: several requests in one piece, and what other sites may have sent."""

import json
import re

import pytest

from tests.support.connections import answers, connected, ends, exchanged, request
from tests.support.protocol import spoken_to
from tests.support.running import slot

# -- What one piece of bytes holds: the end of one request, all of another, and the beginning of a third.

UPGRADE = request("/livez", b"{}", b"Connection: Upgrade\r\nUpgrade: h2c\r\n")
PIECE = 16_384
"""Bytes that the service parses at a time."""


def statuses(service, sent):
    with connected(service) as connection, connection.makefile("rb") as stream:
        connection.sendall(sent)
        return re.findall(rb"HTTP/1\.1 (\d+) ", stream.read())


@pytest.mark.parametrize("before", [b"", UPGRADE], ids=["alone", "behind an upgrade"])
@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (request("/livez", method="GET").replace(b"localhost", b"elsewhere.example"), b"421"),
        (request("/livez", b"", b"".join(b"A%d: b\r\n" % n for n in range(300)), method="GET"), b"431"),
    ],
    ids=["foreign host", "headers"],
)
def test_a_refusal_has_its_own_status(service, before, sent, status):
    assert statuses(service, before + sent)[-1] == status


def test_a_continue_comes_before_the_refusal_of_the_body(service):
    head = request("/v1/sessions", headers=b"Expect: 100-continue\r\nTransfer-Encoding: chunked\r\nX-Pad: ")
    head = head.replace(b"Content-Length: 0\r\n", b"").removesuffix(b"\r\n")
    whole = head + b"x" * (PIECE - len(head) - 4) + b"\r\n\r\n"

    assert statuses(service, whole + b"zz\r\nhello") == [b"100", b"400"]


def test_a_client_of_http_1_0_gets_no_continue(service):
    sent = request("/v1/sessions", b"{}", b"Expect: 100-continue\r\n").replace(b"HTTP/1.1", b"HTTP/1.0", 1)

    assert statuses(service, sent) == [b"422"]


async def test_a_connection_is_not_idle_where_the_next_request_has_begun():
    first, second = request("/first", b"{}"), request("/second", b"{}")
    async with spoken_to() as (reader, writer, served):
        writer.write(first + second[:20])
        await reader.readuntil(b"\r\n\r\n")

        served.timeout_keep_alive = 0.001
        served._close_if_idle()
        writer.write(second[20:])
        await reader.readuntil(b"\r\n\r\n")
        assert await reader.read() == b""


# -- A service without API keys, and what other sites' pages make a browser send to it.

ACT = request("/v1/sessions/s/act")


@pytest.mark.parametrize(
    ("sent", "status", "code"),
    [
        (ACT.replace(b"localhost", b"evil.example"), 421, "foreign_host"),
        (ACT.replace(b"POST /", b"POST http://evil.example/"), 421, "foreign_host"),
        (request("/v1/sessions/s/act", headers=b"Origin: null\r\n"), 403, "cross_site"),
        (request("/v1/sessions/s/act", headers=b"oRIGIN: https://evil.example\r\n"), 403, "cross_site"),
        (request("/v1/sessions/s/act", headers=b"Sec-Fetch-Site: cross-site\r\n"), 403, "cross_site"),
        (ACT.replace(b"Content-Length: 0", b"Transfer-Encoding: chunked") + b"zz\r\n", 400, "bad_request"),
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
    (line,) = [line for line in service.text().splitlines() if answer.headers["x-request-id"] in line]
    assert {"route": "/v1/sessions/{session_id}/act", "session": "s"}.items() <= json.loads(line).items()


def test_what_no_browser_sends_is_served(service):
    (answer,) = exchanged(service, b"GET /livez HTTP/1.0\r\n\r\n", 1)

    assert answer.status == 200
