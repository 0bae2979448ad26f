"""Answers leave in one write, and in order with whatever ends their connection."""

import asyncio
import socket
from collections.abc import Iterable

import pytest

from service.server.closing import AnswerTransport
from tests.support.running import RunningService

HEAD, BODY = b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\n", b"body"
ASKED = b"HEAD /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"


class Recorder(asyncio.Transport):
    """A transport that remembers what it was asked to do, one entry for each call."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[bytes | str] = []

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.calls.append(bytes(data))

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        self.calls.append(b"".join(list_of_data))

    def is_closing(self) -> bool:
        return "close" in self.calls

    def close(self) -> None:
        self.calls.append("close")


@pytest.fixture
async def recorder():
    return Recorder()


@pytest.fixture
async def transport(recorder):
    return AnswerTransport(recorder, asyncio.get_running_loop(), recorder.close)


async def test_head_and_body_leave_together(recorder, transport):
    for _ in range(2):
        transport.write(HEAD)
        transport.write(BODY)
        transport.write(b"more")
        transport.end()

    assert recorder.calls == [HEAD + BODY, b"more"] * 2


async def test_a_head_leaves_in_the_next_turn_where_its_body_takes_longer(recorder, transport):
    transport.write(HEAD)
    assert recorder.calls == []
    await asyncio.sleep(0)
    transport.write(BODY)

    assert recorder.calls == [HEAD, BODY]


async def test_a_head_leaves_before_the_connection_is_closed(recorder, transport):
    transport.write(HEAD)
    transport.close()
    await asyncio.sleep(0)

    assert recorder.calls == [HEAD, "close"]
    assert transport.is_closing()


async def test_what_comes_before_an_answer_leaves_at_once(recorder, transport):
    transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    transport.write(HEAD)
    transport.write(BODY)

    assert recorder.calls == [b"HTTP/1.1 100 Continue\r\n\r\n", HEAD + BODY]


async def test_no_head_is_written_to_a_connection_that_is_lost(recorder, transport):
    transport.write(HEAD)
    recorder.close()
    await asyncio.sleep(0)

    assert recorder.calls == ["close"]


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    with RunningService(tmp_path_factory.mktemp("service"), "--store-url", "memory://") as service:
        service.wait_ready()
        yield service


@pytest.mark.parametrize(
    ("sent", "statuses"),
    [
        pytest.param(ASKED, [b"200"], id="the client sends no more"),
        pytest.param(ASKED + ASKED, [b"200", b"200"], id="two"),
        pytest.param(ASKED + b"no request\r\n\r\n", [b"200", b"400"], id="a malformed request behind it"),
        pytest.param(ASKED.replace(b"\r\n\r\n", b"\r\nExpect: 100-continue\r\n\r\n"), [b"200"], id="expects more"),
    ],
)
def test_answers_without_a_body_come_in_order(service, sent, statuses):
    host, port = service.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=20) as connection:
        connection.sendall(sent)
        connection.shutdown(socket.SHUT_WR)
        with connection.makefile("rb") as stream:
            answer = stream.read()

    assert [line.split()[1] for line in answer.splitlines() if line.startswith(b"HTTP/1.1 ")] == statuses
