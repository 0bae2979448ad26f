"""Quiet sessions beside a hot one, each with clients that ask again as soon as they have their answers."""

import asyncio
import statistics
from contextlib import suppress

import pytest

from tests.support.connections import request
from tests.support.running import RunningService, create

HOT, QUIET, WAITS = 256, 10, 200


async def waited(url: str, method: str, call: str) -> list[int]:
    """Requests of the hot session that were answered while one of a quiet one waited."""
    answered, found = 0, list[int]()

    async def client(session: str) -> None:
        nonlocal answered
        sent = request(f"/v1/sessions/{session}{call}", method=method)
        reader, writer = await asyncio.open_connection(*url.removeprefix("http://").split(":"))
        with suppress(ConnectionError):
            while len(found) < WAITS:
                before = answered
                writer.write(sent)
                data = await reader.read(65_536)
                assert data.startswith(b"HTTP/1.1 200 "), data  # One answer, in one piece.
                if session == "hot":
                    answered += 1
                else:
                    found.append(answered - before)
        writer.close()
        await writer.wait_closed()

    await asyncio.gather(*map(client, ["hot"] * HOT + [f"quiet-{n}" for n in range(QUIET)]))
    return found


@pytest.mark.processes
@pytest.mark.alone
@pytest.mark.parametrize(
    ("workers", "method", "call"), [("1", "POST", "/act"), ("2", "POST", "/act"), ("1", "GET", "")]
)
def test_quiet_sessions_wait_less_than_a_hot_one(tmp_path, redis_server, workers, method, call):
    flags = ("--store-url", redis_server.url, "--workers", workers)
    with RunningService(tmp_path, *flags) as service, service.client() as client:
        service.wait_serving(int(workers))
        for name in ("hot", *(f"quiet-{n}" for n in range(QUIET))):
            create(client, session_id=name)
        found = asyncio.run(waited(service.url, method, call))

    # Counted in requests, as times depend on what else the machine does: while a hot client waits, each of the
    # others has one answered. An eighth of them, and as many again in this process, whose clients wait too.
    assert statistics.median(found) <= HOT / 4
