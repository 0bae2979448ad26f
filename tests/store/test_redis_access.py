"""URLs, passwords and users: what works, and that no secret is ever shown."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.errors import StoreUnavailableError
from service.store import PLAIN_URL, check_url, open_store
from service.store.redis.store import RedisStore
from tests.support.real_redis import RedisServer
from tests.support.sessions import new_session

SECRET = "p@s:s/w%rd#?&=+ ü\"'"


@pytest.fixture
def guarded_server(server_program: str, tmp_path: Path) -> Iterator[RedisServer]:
    server = RedisServer(tmp_path).start()
    server.client.config_set("requirepass", SECRET)
    server.client.execute_command("AUTH", SECRET)
    yield server
    server.close()


def url(server: RedisServer, user: str = "", password: str = SECRET) -> str:
    return f"redis://{user}:{quote(password, safe='')}@127.0.0.1:{server.port}/0"


async def test_any_password_works_when_it_is_percent_encoded(guarded_server: RedisServer) -> None:
    store = RedisStore(url(guarded_server))
    await store.ping()
    assert (await store.create(new_session())).version == "v0"
    await store.close()


async def test_a_wrong_or_missing_password_is_told_without_it(guarded_server: RedisServer) -> None:
    for address, reason in [
        (url(guarded_server, password="secret-" + SECRET), "credentials: .*invalid"),
        (guarded_server.url, "credentials: .*required"),
    ]:
        store = RedisStore(address)
        with pytest.raises(StoreUnavailableError, match=reason) as caught:
            await store.ping()
        told = "".join(traceback.format_exception(caught.value)) + repr(store)
        assert SECRET not in told
        assert "secret-" not in told
        await store.close()


async def test_a_user_without_a_needed_command_is_told_so(guarded_server: RedisServer) -> None:
    guarded_server.client.execute_command("ACL", "SETUSER", "small", "on", f">{SECRET}", "~*", "+@all", "-hset")
    store = RedisStore(url(guarded_server, "small"))
    with pytest.raises(StoreUnavailableError, match="permission"):
        await store.create(new_session())
    await store.close()


@pytest.mark.parametrize(
    "bad",
    [
        "redis://:hunter/2@host:6379/0",
        "redis://:hunter#2@host:6379/0",
        "redis://:12#hunter@host:6379/0",
        "redis://:hunter?2@host:6379/0",
        "redis://:hunter:2@host:port/0",
        "redis://:hunter2@[host:6379/0",
        "redis://:hunter2@host:6379/zero",
        "redis://:hunter2@host:6379/0?retry_on_timeout=yes",
        "redis://:hunter2@host:6379/0?hunter2=1",
        "redis://:hunter2@host:6379/0?db=hunter2",
        "unix://?password=hunter2",
        "redis+nothing://:hunter2@host",
        "hunter2@host:6379",
        "embedded:hunter2",
        "",
    ],
)
def test_an_url_that_makes_no_sense_is_refused_without_showing_it(bad: str) -> None:
    for check in (open_store, check_url):
        with pytest.raises(ValueError, match="store") as caught:
            check(bad)
        assert "hunter" not in "".join(traceback.format_exception(caught.value)).split("ValueError")[-1]


@pytest.mark.parametrize("port", ["0", "65536", "99999", "9" * 5_000])
@pytest.mark.parametrize(
    "url", ["redis://:hidden@a:{}/0", "rediss://a:{}", "redis+cluster://a:1,b:{}", "redis+sentinel://a:{},b/c"]
)
def test_a_port_that_is_none_is_told(url: str, port: str) -> None:
    with pytest.raises(ValueError, match="a port in the store URL is not one of 1 to 65535") as error:
        open_store(url.format(port))
    assert "hidden" not in str(error.value)


@given(st.from_regex(PLAIN_URL, fullmatch=True))
def test_every_url_that_is_not_read_before_it_is_opened_can_be_opened(url: str) -> None:
    open_store(url)


def test_an_embedded_url_is_the_parents_business() -> None:
    with pytest.raises(ValueError, match="parent"):
        open_store("embedded:")


async def test_nothing_listens_there(tmp_path: Path) -> None:
    for address in ("redis://:hunter2@127.0.0.1:1/0", f"unix://{quote(str(tmp_path))}/none.sock?password=hunter2"):
        store = open_store(address)
        with pytest.raises(StoreUnavailableError, match="no connection") as caught:
            await store.ping()
        assert "hunter2" not in "".join(traceback.format_exception(caught.value))
        await store.close()
