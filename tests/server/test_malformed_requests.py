"""Bytes that are no HTTP request, or one that two servers could read in two ways: a problem, and the end."""

from __future__ import annotations

import pytest

from tests.support.connections import JSON, answers, connected, ends, request
from tests.support.running import RunningService, create

HEAD = b"POST /v1/sessions/s/acts HTTP/1.1\r\nHost: localhost\r\n" + JSON
BODY = b'{"count":1}'
CHUNKS = b"b\r\n" + BODY + b"\r\n0\r\n\r\n"
SIZE = b"Content-Length: 11\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"
ACTS = request("/v1/sessions/s/acts", BODY)


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    """One that serves all hosts, with session ``s`` of three arms."""
    folder, environment = tmp_path_factory.mktemp("service"), {"BANDIT_ALLOWED_HOSTS": "*"}
    with RunningService(folder, "--store-url", "memory://", environment=environment) as service:
        with service.client() as client:
            create(client, session_id="s")
        yield service


def slot(service):
    with service.client() as client:
        return client.get("/v1/sessions/s").json()["slot"]


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(b"NONSENSE\r\n\r\n", id="nonsense"),
        pytest.param(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"a" * 50, id="TLS"),
        pytest.param(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", id="HTTP/2"),
        pytest.param(b"GET /livez\r\n\r\n", id="HTTP/0.9"),
        pytest.param(b"GET /livez HTTP/2.0\r\nHost: a\r\n\r\n", id="version 2.0"),
        pytest.param(b"GET /livez HTTP/9.9\r\nHost: a\r\n\r\n", id="version 9.9"),
        pytest.param(b"FOO /livez HTTP/1.1\r\nHost: a\r\n\r\n", id="unknown method"),
        pytest.param(b"get /livez HTTP/1.1\r\nHost: a\r\n\r\n", id="method in small letters"),
        pytest.param(b"GET /livez HTTP/1.1\r\n\r\n", id="no host"),
        pytest.param(b"GET /livez HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", id="two hosts"),
        *(
            pytest.param(b"GET /livez HTTP/1.1\r\nHost: " + host + b"\r\n\r\n", id=f"host {host!r}")
            for host in (
                b"a b",
                b"a/b",
                b"a?b",
                b"a#b",
                b"u:p@a",
                b"a:b",
                b"[",
                b"[::1",
                b"a]",
                b"a\\b",
                b"\xff",
                b'"a"',
                b"a:99999",
                b"a:65536",
                b"a:" + b"9" * 5_000,
                b"a:-1",
                b"a:8000:8000",
                b"a%zz",
                b"%",
                b"[zz]",
                b"[]",
                b"[::::]",
                b"[1:2:3]",
                b"[127.0.0.1]",
                b"[::1]a",
                b"[::1]:65536",
                b"[::1%25eth0]",
                b"[v.a]",
                b"[v1]",
            )
        ),
        pytest.param(b"GET livez HTTP/1.1\r\nHost: a\r\n\r\n", id="no slash"),
        pytest.param(b"GET /livez#a HTTP/1.1\r\nHost: a\r\n\r\n", id="fragment"),
        pytest.param(b"GET /liv ez HTTP/1.1\r\nHost: a\r\n\r\n", id="space in the path"),
        pytest.param(b"GET /liv\x01ez HTTP/1.1\r\nHost: a\r\n\r\n", id="control character in the path"),
        pytest.param("GET /é HTTP/1.1\r\nHost: a\r\n\r\n".encode(), id="raw UTF-8 in the path"),
        pytest.param(b"GET http://a:99999999/livez HTTP/1.1\r\nHost: a\r\n\r\n", id="absolute with a bad port"),
        *(
            pytest.param(b"GET http://" + host + b"/livez HTTP/1.1\r\nHost: a\r\n\r\n", id=f"absolute {host!r}")
            for host in (b"a:65536", b"[zz]", b"[::::]", b"u:p@a", b"a%zz")
        ),
        pytest.param(b"GET http://a HTTP/1.1\r\nHost: a\r\n\r\n", id="absolute without a path"),
        pytest.param(b"CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n", id="CONNECT"),
        pytest.param(HEAD + SIZE + CHUNKED + b"\r\n" + CHUNKS, id="length, then chunked"),
        pytest.param(HEAD + CHUNKED + SIZE + b"\r\n" + CHUNKS, id="chunked, then length"),
        pytest.param(HEAD + SIZE + SIZE + b"\r\n" + BODY, id="two equal lengths"),
        pytest.param(HEAD + SIZE + b"Content-Length: 1\r\n\r\n" + BODY, id="two lengths"),
        *(
            pytest.param(HEAD + b"Content-Length: " + size + b"\r\n\r\n" + BODY, id=f"length {size.decode()}")
            for size in (b"11, 11", b"+11", b"-1", b"0xb", b"1 1", b"1e1", b"", b"9" * 30)
        ),
        *(
            pytest.param(HEAD + b"Transfer-Encoding: " + coding + b"\r\n\r\n" + CHUNKS, id=f"coding {coding!r}")
            for coding in (b"gzip", b"gzip, chunked", b"chunked, gzip", b"xchunked", b"identity", b"chunked\x0b")
        ),
        pytest.param(HEAD + CHUNKED + CHUNKED + b"\r\n" + CHUNKS, id="chunked twice"),
        pytest.param(HEAD + b"Transfer-Encoding : chunked\r\n\r\n" + CHUNKS, id="space before a colon"),
        pytest.param(HEAD + b"Transfer-Encoding:\r\n chunked\r\n\r\n" + CHUNKS, id="folded coding"),
        pytest.param(HEAD.replace(b"/1.1", b"/1.0") + CHUNKED + b"\r\n" + CHUNKS, id="chunked in HTTP/1.0"),
        *(
            pytest.param(HEAD + CHUNKED + b"\r\n" + CHUNKS[:-2] + trailer + b"\r\n", id=f"trailer {trailer!r}")
            for trailer in (SIZE, CHUNKED)
        ),
        pytest.param(HEAD + SIZE + b"A: b\r\n c\r\n\r\n" + BODY, id="folded header"),
        pytest.param(HEAD + SIZE + b"A: b\nC: d\r\n\r\n" + BODY, id="bare LF"),
        pytest.param(HEAD + SIZE + b"A: b\rC: d\r\n\r\n" + BODY, id="bare CR"),
        pytest.param(HEAD + SIZE + b"A: b\0c\r\n\r\n" + BODY, id="NUL in a header"),
        pytest.param(HEAD + SIZE + b"A\xff: b\r\n\r\n" + BODY, id="name that is no token"),
        pytest.param(HEAD + SIZE + b": b\r\n\r\n" + BODY, id="no name"),
        pytest.param(HEAD + SIZE + b"AB\r\n\r\n" + BODY, id="no colon"),
        *(
            pytest.param(HEAD + CHUNKED + b"\r\n" + chunks, id=f"chunks {chunks[:12]!r}")
            for chunks in (
                b"zz\r\n",
                b"-1\r\n",
                b"0xb\r\n" + BODY,
                b"b\n" + BODY,
                b"f" * 20,
                b"b\r\n" + BODY + b"XX",
            )
        ),
    ],
)
def test_what_is_no_request_gets_a_problem_and_the_connection_ends(service, sent):
    before = slot(service)
    with connected(service) as connection:
        connection.sendall(sent)
        (answer,) = answers(connection, 2)

    assert (answer.status, answer.json["status"], answer.json["code"]) == (400, 400, "bad_request")
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["connection"] == "close"
    assert answer.headers["x-request-id"]
    assert slot(service) == before


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(request("/livez", headers=b"A: b\r\n" * 201, method="GET"), id="many headers"),
        pytest.param(request("/livez", headers=b"A: " + b"b" * 70_000 + b"\r\n", method="GET"), id="long header"),
        pytest.param(request("/v1/sessions/" + "a" * 20_000, method="GET"), id="long id"),
        pytest.param(request("/v1/sessions/" + "a" * 1_000_000, method="GET"), id="very long id"),
        pytest.param(HEAD + CHUNKED + b"\r\n1;" + b"a" * 100_000 + b"\r\n", id="long extension of a chunk"),
        pytest.param(HEAD + CHUNKED + b"\r\n0\r\nA: " + b"a" * 100_000 + b"\r\n", id="long trailer"),
    ],
)
def test_heads_are_bounded(service, sent):
    with connected(service) as connection:
        connection.sendall(sent)
        (answer,) = answers(connection, 2)

    assert (answer.status, answer.json["code"]) == (431, "head_too_large")


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
        connection.sendall(
            call.encode() + b" HTTP/1.1\r\nHost: localhost\r\n" + JSON + framed + b" " * 900_000 + end
        )
        connection.sendall(ACTS)

        assert [answer.status for answer in answers(connection, 2)] == [status, 200]


def test_requests_before_a_broken_one_are_answered_first(service):
    with connected(service) as connection:
        connection.sendall(ACTS * 3 + b"BROKEN\r\n\r\n" + ACTS)

        assert [answer.status for answer in answers(connection, 5)] == [200, 200, 200, 400]


def test_a_broken_body_behind_another_request_is_answered_second(service):
    with connected(service) as connection:
        connection.sendall(ACTS + HEAD + CHUNKED + b"\r\nzz\r\n")

        assert [answer.status for answer in answers(connection, 3)] == [200, 400]


def test_they_are_counted_and_logged_like_all_errors(service):
    with service.client() as client:
        count = 'bandit_problems_total{code="bad_request"} '
        before = float(client.get("/metrics").text.partition(count)[2].split()[0])
        with connected(service) as connection:
            connection.sendall(b"FORGED LINE\r\n\r\n")
            (answer,) = answers(connection, 2)

        assert float(client.get("/metrics").text.partition(count)[2].split()[0]) == before + 1
    assert answer.headers["x-request-id"] in service.text()
    assert "FORGED" not in service.text()


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
                b"",
                b"a.b-c_d",
                b"a%2fb",
                b"a:",
                b"a:8000",
                b"a:65535",
                b"a:" + b"0" * 5_000 + b"80",
                b"[::1]",
                b"[::1]:8000",
                b"[1:2:3:4:5:6:127.0.0.1]:",
                b"[v1F.a:b]:80",
                b"127.0.0.1:80",
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
