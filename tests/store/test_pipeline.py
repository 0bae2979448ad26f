"""Many calls under way on one connection: replies in their order, each to its own call."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import uvloop
from redis.exceptions import ConnectionError as LostConnectionError
from redis.exceptions import ResponseError

from service.store.redis.connection import Pipeline, packed
from tests.support.real_redis import RedisServer
from tests.support.waiting import wait_until

ECHO = [packed(("ECHO", str(n))) for n in range(1000)]


@pytest.fixture
async def pipeline(redis_server: RedisServer) -> AsyncIterator[Pipeline]:
    opened = await Pipeline.open({"host": "127.0.0.1", "port": redis_server.port}, 5)
    yield opened
    opened.close()


async def test_commands_of_one_turn_leave_in_one_write_and_replies_keep_their_order(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    writes, write = [], pipeline._transport.writelines
    monkeypatch.setattr(pipeline._transport, "writelines", lambda data: (writes.append(data), write(data)))

    replies = await asyncio.gather(*map(pipeline.send, ECHO))

    assert replies == [b"%d" % n for n in range(len(ECHO))]
    assert writes == [ECHO]


async def test_an_error_is_that_of_its_own_call(pipeline: Pipeline) -> None:
    first, wrong, last = map(pipeline.send, (ECHO[1], packed(("ECHO",)), ECHO[2]))

    with pytest.raises(ResponseError, match="wrong number"):
        await wrong
    assert (await first, await last) == (b"1", b"2")
    assert pipeline.is_open


async def test_a_reply_that_belongs_to_no_call_ends_the_connection(pipeline: Pipeline) -> None:
    """After it no reply could be trusted to be that of its call."""
    assert await pipeline.send(ECHO[1] + ECHO[2]) == b"1"
    await asyncio.to_thread(wait_until, lambda: not pipeline.is_open)

    with pytest.raises(LostConnectionError):
        await pipeline.send(ECHO[3])


async def test_a_retired_connection_ends_with_its_last_reply(pipeline: Pipeline) -> None:
    replies = [pipeline.send(command) for command in ECHO]
    pipeline.retire()

    assert await asyncio.gather(*replies) == [b"%d" % n for n in range(len(ECHO))]
    assert pipeline._transport.is_closing()


def test_a_connection_that_was_just_lost_takes_no_call_under_uvloop(redis_server: RedisServer) -> None:
    """Before its loop has told the connection, uvloop would raise no OSError."""

    async def scenario() -> None:
        pipeline = await Pipeline.open({"host": "127.0.0.1", "port": redis_server.port}, 5)
        pipeline._transport.abort()
        assert pipeline.is_open
        with pytest.raises(LostConnectionError):
            pipeline.send(ECHO[1])

    uvloop.run(scenario())
