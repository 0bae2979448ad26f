"""Open-loop load: requests are sent when they are due, however long the answers before them take."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence

import numpy as np
import uvloop

from loadtest.bench.closed_loop import Conversation
from loadtest.errors import ServiceError

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_HEAD_END = b"\r\n\r\n"


def latencies(
    port: int, converse: Callable[[], Conversation], clients: int, seconds: float, rate: float
) -> dict[str, float]:
    """Send ``rate`` requests per second; milliseconds from the time that a request was due to its answer.

    A request that is due while all connections wait for answers is sent late, and its time runs already.

    Raises
    ------
    ServiceError
        for an answer that is no 200, or a lost connection.
    """
    found = uvloop.run(_run(port, converse, clients, seconds, rate))
    p50, p99 = np.percentile(found, [50, 99])
    return {
        "requests": len(found),
        "rate": rate,
        "p50": float(p50),
        "p99": float(p99),
        "p99_over_p50": float(p99 / p50),
    }


async def _run(
    port: int, converse: Callable[[], Conversation], clients: int, seconds: float, rate: float
) -> Sequence[float]:
    loop, due = asyncio.get_running_loop(), asyncio.Queue[float | None]()
    found: list[float] = []
    talks = [asyncio.create_task(_talk(port, converse(), due, found)) for _ in range(clients)]
    started, sent = loop.time(), 0
    while sent < seconds * rate:
        while started + sent / rate <= loop.time():
            due.put_nowait(started + sent / rate)
            sent += 1
        await asyncio.sleep(0.5 / rate)
    for _ in talks:
        due.put_nowait(None)
    await asyncio.gather(*talks)
    return found


async def _talk(port: int, talk: Conversation, due: asyncio.Queue[float | None], found: list[float]) -> None:
    loop = asyncio.get_running_loop()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    asked = next(talk)
    try:
        while (intended := await due.get()) is not None:
            writer.write(asked)
            head = await reader.readuntil(_HEAD_END)
            length = _LENGTH.search(head)
            body = await reader.readexactly(int(length[1]) if length else 0)
            if not head.startswith(b"HTTP/1.1 200"):
                raise ServiceError(f"status {head[9:12].decode()}: {body[:200].decode(errors='replace')}")
            found.append(1000 * (loop.time() - intended))
            asked = talk.send(body)
    except (asyncio.IncompleteReadError, OSError) as error:
        raise ServiceError(f"a connection was lost: {error}") from error
    finally:
        writer.close()
