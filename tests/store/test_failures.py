"""Every way a server refuses is told by its own words, with any version of redis-py."""

from __future__ import annotations

import pytest
from redis import exceptions
from redis._parsers.base import BaseParser
from redis.asyncio.sentinel import MasterNotFoundError

from service.errors import StoreUnavailableError
from service.store.base import StoreOptions
from service.store.redis.store import RedisStore
from service.store.redis.url import NO_MASTER, NO_SENTINEL, failure_of

WRAPPED = "Error running script (call to f_1234): @user_script:9: @user_script: 9: "


@pytest.mark.parametrize(
    ("reply", "words", "passing"),
    [
        ("LOADING Redis is loading the dataset in memory", "LOADING", True),
        ("BUSY Redis is busy running a script.", "BUSY", True),
        ("TRYAGAIN Multiple keys request during rehashing of slot", "TRYAGAIN", True),
        ("CLUSTERDOWN Hash slot not served", "CLUSTERDOWN", True),
        ("MASTERDOWN Link with MASTER is down", "MASTERDOWN", True),
        ("MOVED 3999 127.0.0.1:6381", "cluster", False),
        ("ASK 3999 127.0.0.1:6381", "cluster", False),
        ("OOM command not allowed when used memory > 'maxmemory'.", "full", False),
        (f"ERR {WRAPPED}-OOM command not allowed when used memory > 'maxmemory'.", "full", False),
        ("READONLY You can't write against a read only replica.", "replica", False),
        (f"ERR {WRAPPED}-READONLY You can't write against a read only replica.", "replica", False),
        ("MISCONF Redis is configured to save RDB snapshots", "disk", False),
        (f"ERR {WRAPPED}-MISCONF Errors writing to the AOF file", "disk", False),
        ("NOREPLICAS Not enough good replicas to write.", "replicas", False),
        ("NOAUTH Authentication required.", "credentials", False),
        ("WRONGPASS invalid username-password pair or user is disabled.", "credentials", False),
        ("NOPERM this user has no permissions to run the 'evalsha' command", "permission", False),
        ("ERR max number of clients reached", "too many clients", True),
        ("ERR something nobody thought of", "something nobody thought of", False),
    ],
)
def test_a_reply_is_told(reply: str, words: str, passing: bool) -> None:
    what = failure_of(BaseParser.parse_error(reply))

    assert words in what.reason
    assert what.is_transient is passing


@pytest.mark.parametrize(
    "error", [exceptions.TimeoutError("Timeout reading"), exceptions.ConnectionError("closed")]
)
def test_a_lost_connection_may_pass(error: exceptions.RedisError) -> None:
    assert failure_of(error).is_transient


def test_a_long_refusal_is_cut() -> None:
    assert len(failure_of(exceptions.ResponseError("x" * 10_000)).reason) < 300


def test_sentinels_out_of_reach_are_told_from_those_that_know_no_master() -> None:
    assert failure_of(MasterNotFoundError("No master found for 'main'")) == NO_MASTER
    assert failure_of(MasterNotFoundError("No master found for 'main' : <a> - ConnectionError()")) == NO_SENTINEL


async def test_sentinels_out_of_reach_are_named_in_the_failure_of_a_call() -> None:
    store = RedisStore("redis+sentinel://127.0.0.1:1,127.0.0.1:2/main", StoreOptions(retry_seconds=0))

    with pytest.raises(StoreUnavailableError, match="sentinels are out of reach"):
        await store.load("s")
    await store.close()


def test_a_refused_command_is_named() -> None:
    text = "NOPERM User small has no permissions to run the 'cluster|slots' command"

    assert failure_of(BaseParser.parse_error(text)).reason.endswith("(NOPERM): cluster|slots")
