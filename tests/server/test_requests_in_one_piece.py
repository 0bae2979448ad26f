"""What one piece of bytes holds: the end of one request, all of another, and the beginning of a third."""

from __future__ import annotations

import re

import pytest

from tests.support.connections import connected, request
from tests.support.protocol import spoken_to
from tests.support.running import RunningService

UPGRADE = request("/livez", b"{}", b"Connection: Upgrade\r\nUpgrade: h2c\r\n")
PIECE = 16_384
"""Bytes that the service parses at a time."""


def statuses(service: RunningService, sent: bytes) -> list[bytes]:
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
def test_a_refusal_has_its_own_status(service: RunningService, before: bytes, sent: bytes, status: bytes) -> None:
    assert statuses(service, before + sent)[-1] == status


def test_a_continue_comes_before_the_refusal_of_the_body(service: RunningService) -> None:
    head = request("/v1/sessions", headers=b"Expect: 100-continue\r\nTransfer-Encoding: chunked\r\nX-Pad: ")
    head = head.replace(b"Content-Length: 0\r\n", b"").removesuffix(b"\r\n")
    whole = head + b"x" * (PIECE - len(head) - 4) + b"\r\n\r\n"

    assert statuses(service, whole + b"zz\r\nhello") == [b"100", b"400"]


def test_a_client_of_http_1_0_gets_no_continue(service: RunningService) -> None:
    sent = request("/v1/sessions", b"{}", b"Expect: 100-continue\r\n").replace(b"HTTP/1.1", b"HTTP/1.0", 1)

    assert statuses(service, sent) == [b"422"]


async def test_an_answer_starts_no_idle_timer_where_the_next_request_has_begun() -> None:
    first = request("/first", b"{}")
    second = request("/second", b"{}")
    async with spoken_to() as (reader, writer, served):
        writer.write(first + second[:20])
        await reader.readuntil(b"\r\n\r\n")

        assert served.timeout_keep_alive_task is None
        writer.write(second[20:])
        await reader.readuntil(b"\r\n\r\n")
        assert served.timeout_keep_alive_task is not None
