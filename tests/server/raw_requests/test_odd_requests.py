"""Requests that are odd and right: each is served or refused, and so is the next on its connection."""

import re
import socket

import pytest

from tests.server.raw_requests.conftest import ACTS, BODY, CHUNKED, CHUNKS, HEAD
from tests.support.connections import JSON, answers, connected, ends, request
from tests.support.running import slot


@pytest.mark.parametrize(
    "framed", [b"Content-Length: 900000\r\n\r\n", CHUNKED + b"\r\nDBBA0\r\n"], ids=["sized", "chunked"]
)
@pytest.mark.parametrize(
    ("call", "status"),
    [
        ("GET /livez", 200),
        ("GET /metrics", 200),
        ("GET /v1/sessions", 200),
        ("GET /v1/sessions/s", 200),
        ("DELETE /v1/sessions/none", 404),
        ("POST /nowhere", 404),
        ("PUT /v1/sessions", 405),
        ("POST /v1/sessions/s/act", 422),
    ],
)
def test_a_large_body_that_nobody_takes_keeps_no_later_request_waiting(service, call, status, framed):
    end = b"\r\n0\r\n\r\n" if CHUNKED in framed else b""
    with connected(service) as connection:
        head = call.encode() + b" HTTP/1.1\r\nHost: localhost\r\n" + JSON + framed
        connection.sendall(head + b" " * 900_000 + end)
        connection.sendall(ACTS)

        assert [answer.status for answer in answers(connection, 2)] == [status, 200]


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(HEAD + b"Content-Length: 011\r\n\r\n" + BODY, id="zeros before the length"),
        pytest.param(HEAD + b"Transfer-Encoding: CHUNKED\r\n\r\n" + CHUNKS, id="coding in capitals"),
        pytest.param(HEAD + CHUNKED + b"\r\n" + CHUNKS.replace(b"b\r", b"b;a=b\r", 1), id="extension of a chunk"),
        pytest.param(b"\r\n\r\n" + ACTS, id="empty lines before"),
        pytest.param(ACTS.replace(b"POST /", b"POST http://other/"), id="absolute"),
        pytest.param(ACTS.replace(b"POST /", b"POST http://[::1]:8000/"), id="absolute with a port"),
        *(
            pytest.param(ACTS.replace(b"Host: localhost", b"Host: " + host), id=f"host {host!r}")
            for host in (
                *(b"", b"a.b-c_d", b"a%2fb", b"a:", b"a:8000", b"a:65535", b"a:" + b"0" * 5_000 + b"80"),
                *(b"[::1]", b"[::1]:8000", b"[1:2:3:4:5:6:127.0.0.1]:", b"[v1F.a:b]:80", b"127.0.0.1:80"),
            )
        ),
        pytest.param(request("/v1/sessions/s/acts", BODY, b"A: \xff\r\n"), id="high bytes in a header"),
        *(
            pytest.param(ACTS.replace(b"Host: localhost", b"Host:" + host), id=f"host {host!r}")
            for host in (b"\t a\t", b"a \t ")
        ),
        pytest.param(request("/v1/sessions/s/acts", BODY, b"Expect: 100-continue\r\n"), id="expect"),
        pytest.param(
            HEAD + CHUNKED + b"\r\n" + CHUNKS[:-2] + b"Content-Type: text/plain\r\nIdempotency-Key: a\r\n\r\n",
            id="trailers change nothing",
        ),
        *(
            pytest.param(
                request("/v1/sessions/s/acts", BODY, b"Connection: Upgrade\r\nUpgrade: %b\r\n" % other),
                id=str(other),
            )
            for other in (b"h2c", b"websocket", b"TLS/1.0")
        ),
        pytest.param(
            HEAD + CHUNKED + b"Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n" + CHUNKS, id="chunked with an upgrade"
        ),
    ],
)
@pytest.mark.parametrize("size", [1_000_000, 1])
def test_odd_requests_are_served_and_so_is_the_next(service, sent, size):
    before = slot(service)
    with connected(service) as connection:
        for start in range(0, len(sent), size):
            connection.sendall(sent[start : start + size])
        connection.sendall(ACTS)
        slots = [answer.json["actions"][0]["slot"] for answer in answers(connection, 2)]

    assert slots == [before + 1, before + 2]


@pytest.mark.slow
def test_ten_thousand_pipelined_requests_are_answered_in_order(service):
    before = slot(service)
    with connected(service) as connection:
        connection.sendall(request("/v1/sessions/s/act") * 10_000)
        slots = [answer.json["slot"] for answer in answers(connection, 10_000)]

    assert slots == list(range(before + 1, before + 10_001))


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("//v1/sessions/s", 404),
        ("/v1/../livez", 404),
        ("/v1/sessions/.", 404),
        ("/v1/sessions/..", 404),
        ("/v1/sessions/%2e%2e", 404),
        ("/v1/sessions/%00", 404),
        ("/v1/sessions/s%00", 404),
        ("/v1/sessions/s%0a", 404),
        ("/v1/sessions/%ff%fe", 404),
        ("/v1/sessions/%ed%a0%80", 404),
        ("/v1/sessions/%zz", 404),
        ("/v1%2fsessions/s", 404),
        ("/v1/sessions%2Fs", 404),
        ("/v1/sessions/s%2fact", 404),
        ("/v1/sessions/s;a=b", 404),
        ("/v1/sessions/S", 404),
        ("http://a", 200),
        ("/v1/sessions/%73", 200),
        ("/v1/sessions/" + "a" * 10_000, 404),
    ],
)
def test_paths_are_what_they_say(service, path, status):
    with connected(service) as connection:
        connection.sendall(request(path, method="GET") + request("/livez", method="GET"))
        first, second = answers(connection, 2)

    assert (first.status, second.status) == (status, 200)
    if status == 404:
        assert first.json["code"] in {"not_found", "unknown_session"}


@pytest.mark.parametrize("method", ["HEAD", "OPTIONS", "TRACE", "PUT", "PATCH", "DELETE", "PROPFIND", "QUERY"])
def test_methods_that_a_route_lacks_are_refused_whatever_they_are(service, method):
    with connected(service) as connection:
        connection.sendall(request("/v1/sessions/s/act", method=method, headers=b"Cookie: secret\r\n"))
        if method == "HEAD":
            connection.sendall(request("/livez", method="GET"))
            head = connection.recv(65_536)
            assert head.startswith(b"HTTP/1.1 405 ")
            assert b"allow: POST\r\n" in head
            return
        (answer,) = answers(connection, 1)

    assert (answer.status, answer.json["code"], answer.headers["allow"]) == (405, "method_not_allowed", "post")
    assert b"secret" not in answer.body


def test_an_early_answer_to_who_waits_to_go_on_ends_the_connection(service):
    head = b"POST /nowhere HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 20\r\n\r\n"
    with connected(service) as connection:
        connection.sendall(head)
        (answer,) = answers(connection, 1)

        assert answer.status == 404
        assert ends(connection)


ASKED = request("/livez", method="HEAD")


@pytest.mark.parametrize(
    ("sent", "statuses"),
    [
        pytest.param(ASKED, [b"200"], id="the client sends no more"),
        pytest.param(ASKED + ASKED, [b"200", b"200"], id="two"),
        pytest.param(ASKED + b"no request\r\n\r\n", [b"200", b"400"], id="a malformed request behind it"),
        pytest.param(request("/livez", b"", b"Expect: 100-continue\r\n", "HEAD"), [b"200"], id="expects more"),
    ],
)
def test_answers_without_a_body_come_in_order(service, sent, statuses):
    with connected(service) as connection, connection.makefile("rb") as stream:
        connection.sendall(sent)
        connection.shutdown(socket.SHUT_WR)

        assert re.findall(rb"HTTP/1\.1 (\d+) ", stream.read()) == statuses
