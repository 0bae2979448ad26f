"""What a connection does with any bytes: it answers with whole responses, holds little, and fails at nothing."""

import asyncio
import json
import logging
import re
import time
from typing import Any

import uvicorn
from starlette.responses import Response
from uvicorn.server import ServerState

from service.api.problems import problem_fields
from service.server.connection import MAX_HEAD_BYTES, HttpConnection
from service.server.connection_limits import ConnectionLimit

HEAD = re.compile(rb"HTTP/1\.1 (\d{3}) [^\r\n]*\r\n((?:[a-z-]+: [^\r\n]*\r\n)+)\r\n")
LOOP = asyncio.new_event_loop()
FAULTS: list[dict[str, Any]] = []
LOOP.set_exception_handler(lambda _, context: FAULTS.append(context))


class Faults(logging.Handler):
    """Errors that uvicorn only logs."""

    def emit(self, record: logging.LogRecord) -> None:
        FAULTS.append(vars(record))


logging.getLogger("uvicorn.error").addHandler(Faults(logging.ERROR))


class Wire(asyncio.Transport):
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        super().__init__({"peername": ("client", 1), "sockname": ("service", 2)})
        self.written = b""
        self.closed = False

    def write(self, data: Any) -> None:
        assert not self.closed
        self.written += data

    def close(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        pass

    pause_reading = resume_reading = write_eof


async def app(scope: Any, receive: Any, send: Any) -> None:
    """Answers to a path with ``e`` before the body is read, to others with its length."""
    size, more = 0, "e" not in scope["path"]
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        size, more = size + len(message["body"]), message["more_body"]
    body = b"%d" % size
    headers = [(b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


CONFIG = uvicorn.Config(app, ws="none", lifespan="off", log_config=None)
CONFIG.load()


def one_input(data: bytes) -> None:
    """The first byte says in how large pieces the others come."""
    LOOP.run_until_complete(_connection(data))
    assert not FAULTS, FAULTS


async def _connection(data: bytes) -> None:
    wire = Wire()
    connection = HttpConnection(
        CONFIG,
        ServerState(),
        {},
        LOOP,
        check_origin=lambda _url, _headers: None,
        limit=ConnectionLimit(10, time.monotonic),
        head_seconds=60.0,
        refuse=lambda error, *_: Response(json.dumps(problem_fields(error)), error.status),
    )
    connection.connection_made(wire)
    size = 1 + (data[0] if data else 0)
    for start in range(1, len(data), size):
        if wire.closed:
            break
        connection.data_received(data[start : start + size])
        assert connection._head_bytes <= MAX_HEAD_BYTES + len(data)
        await asyncio.sleep(0)
    for _ in range(20):
        await asyncio.sleep(0)
    _check_answers(wire.written)
    connection.connection_lost(None)
    await asyncio.gather(*connection.tasks, return_exceptions=True)


def _check_answers(written: bytes) -> None:
    while written:
        if written.startswith(b"HTTP/1.1 100 Continue\r\n\r\n"):
            written = written.removeprefix(b"HTTP/1.1 100 Continue\r\n\r\n")
            continue
        head = HEAD.match(written)
        assert head, written
        headers = dict(line.split(b": ", 1) for line in head[2].split(b"\r\n") if line)
        size = int(headers[b"content-length"])
        body = written[head.end() : head.end() + size]
        if head[1] != b"200":
            assert json.loads(body)["status"] == int(head[1])
        written = written[head.end() + size :] if body[:5] != b"HTTP/" else written[head.end() :]


def seeds() -> list[bytes]:
    """Inputs to start from."""
    head = b"POST /a HTTP/1.1\r\nHost: a\r\n"
    chunked = head + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"
    plain = head + b"Content-Length: 2\r\n\r\n{}"
    upgrade = head + b"Connection: Upgrade\r\nUpgrade: h2c\r\nContent-Length: 2\r\n\r\n{}"
    return [
        b"\xff" + request
        for request in (
            chunked,
            plain + plain,
            upgrade + plain,
            plain.replace(b"/a", b"/early") + chunked,
            head + b"Expect: 100-continue\r\nContent-Length: 2\r\n\r\n{}" + plain,
            plain + b"X\r\n\r\n",
            head + b"Connection: close\r\n\r\n" + plain,
            chunked.replace(b"0\r\n\r\n", b"0\r\nA: b\r\n\r\n"),
            b"GET http://a/b?c HTTP/1.0\r\n\r\n",
        )
    ]
