"""The users that the compose file gives its Redis, on a real server: enough for the service, and no more."""

import re
import shlex

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from service.store.redis.store import RedisStore
from tests.support.compose import COMPOSE, ROOT
from tests.support.real_redis import RedisServer
from tests.support.sessions import commit, digest, loaded, use

FORBIDDEN = [
    *("CONFIG GET dir", "CONFIG SET dir /", "FLUSHALL", "FLUSHDB", "KEYS *", "SHUTDOWN"),
    *("REPLICAOF NO ONE", "ACL LIST", "SCRIPT FLUSH", "CLIENT LIST", "MODULE LIST", "MONITOR"),
    *("DEBUG SLEEP 0", "SET other 1", "GET other"),
]


def arguments(password: str) -> list[str]:
    """What the compose file starts Redis with, its variables put in as compose does."""
    text = COMPOSE["services"]["redis"]["command"]
    text = text.replace("${REDIS_PASSWORD:+>}", ">" if password else "")
    text = text.replace("${REDIS_PASSWORD:-nopass}", password or "nopass")
    text = with_defaults(text)
    assert not re.search(r"[$&|;<>]", re.sub(r'"[^"]*"', "", text)), "compose ends a command at an operator"
    return shlex.split(text)[1:]


def with_defaults(text: str) -> str:
    """Put in the defaults of variables as compose does."""
    return re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", text)


def url(server: RedisServer, password: str) -> str:
    words = COMPOSE["services"]["service"]["environment"]["BANDIT_STORE_URL"]
    words = with_defaults(words.replace("${REDIS_PASSWORD:-none}", password or "none"))
    return re.sub(r"@redis:6379", f"@127.0.0.1:{server.port}", words)


@pytest.fixture(params=["", "letters4nd9digits"], ids=["no password", "password"])
def password(request):
    return str(request.param)


@pytest.fixture
def server(server_program, tmp_path, password):
    server = RedisServer(tmp_path, *arguments(password)).start()
    yield server
    server.kill()
    server.close()


@pytest.fixture
async def store(server, password):
    return RedisStore(url(server, password))


def connect(server: RedisServer, user: str | None, password: str | None) -> redis.Redis:
    return redis.Redis(port=server.port, username=user, password=password, protocol=2, retry=Retry(NoBackoff(), 0))


async def test_the_services_user_may_do_all_that_the_store_does(server, store, password):
    await use(url(server, password))
    assert await store.warnings() == []


async def test_what_was_committed_is_there_after_a_kill(server, store, created):
    await store.commit(commit("a-0", "a-1", event_ids=[digest(1)]))
    server.kill()
    server.start()

    assert (await loaded(store)).version == "a-1"
    assert "NOPERM" not in (server.folder / "server.log").read_text()


def test_the_services_user_may_do_nothing_else(server, password):
    client = connect(server, "bandit", password or "none")

    for command in FORBIDDEN:
        with pytest.raises(redis.ResponseError, match=r"(?i)no permissions|not allowed"):
            client.execute_command(*command.split())
    client.close()


def test_nobody_gets_in_without_a_name(server, password):
    for user, secret in [(None, None), (None, "none"), ("default", "none"), ("default", password or "none")]:
        client = connect(server, user, secret)
        with pytest.raises(redis.AuthenticationError):
            client.ping()
        client.close()
    if password:
        client = connect(server, "bandit", "none")
        with pytest.raises(redis.AuthenticationError):
            client.ping()
        client.close()


def test_the_health_check_may_ping_and_nothing_else(server):
    client = connect(server, "health", "none")

    assert client.ping()
    with pytest.raises(redis.ResponseError, match="no permissions"):
        client.get("bandit:{s}")
    client.close()


def test_the_services_user_may_do_what_its_scripts_do_and_little_more():
    scripts = "".join(path.read_text() for path in sorted((ROOT / "service/store/redis/lua").rglob("*.lua")))
    called = {name.lower() for name in re.findall(r"redis\.p?call\(\s*['\"](\w+)", scripts)}
    rules = arguments("")[arguments("").index("bandit") :]

    allowed = called | {"eval", "evalsha", "info", "wait"}
    assert {rule[1:] for rule in rules if rule.startswith("+")} == allowed
