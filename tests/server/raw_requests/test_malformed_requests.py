"""Bytes that are no HTTP request, or one that two servers could read in two ways: a problem, and the end."""

import pytest

from tests.server.raw_requests.conftest import ACTS, BODY, CHUNKED, CHUNKS, HEAD, SIZE
from tests.support.connections import exchanged, request
from tests.support.running import slot


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
                *(b"a b", b"a/b", b"a?b", b"a#b", b"u:p@a", b"a:b", b"[", b"[::1", b"a]", b"a\\b"),
                *(b"\xff", b'"a"', b"a:99999", b"a:65536", b"a:" + b"9" * 5_000, b"a:-1", b"a:8000:8000"),
                *(b"a%zz", b"%", b"[zz]", b"[]", b"[::::]", b"[1:2:3]", b"[127.0.0.1]", b"[::1]a"),
                *(b"[::1]:65536", b"[::1%25eth0]", b"[v.a]", b"[v1]"),
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
                *(b"zz\r\n", b"-1\r\n", b"0xb\r\n" + BODY, b"b\n" + BODY, b"f" * 20),
                b"b\r\n" + BODY + b"XX",
            )
        ),
    ],
)
def test_what_is_no_request_gets_a_problem_and_the_connection_ends(service, sent):
    before = slot(service)
    (answer,) = exchanged(service, sent, 2)

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
    (answer,) = exchanged(service, sent, 2)

    assert (answer.status, answer.json["code"]) == (431, "head_too_large")


def test_requests_before_a_broken_one_are_answered_first(service):
    told = exchanged(service, ACTS * 3 + b"BROKEN\r\n\r\n" + ACTS, 5)
    assert [answer.status for answer in told] == [200, 200, 200, 400]


def test_a_broken_body_behind_another_request_is_answered_second(service):
    assert [answer.status for answer in exchanged(service, ACTS + HEAD + CHUNKED + b"\r\nzz\r\n", 3)] == [200, 400]


def test_they_are_counted_and_logged_like_all_errors(service):
    with service.client() as client:
        count = 'bandit_problems_total{code="bad_request"} '
        before = float(client.get("/metrics").text.partition(count)[2].split()[0])
        (answer,) = exchanged(service, b"FORGED LINE\r\n\r\n", 2)

        assert float(client.get("/metrics").text.partition(count)[2].split()[0]) == before + 1
    assert answer.headers["x-request-id"] in service.text()
    assert "FORGED" not in service.text()
