"""The access lists of docs/security.md on real servers: enough for the service, for each deployment."""

from __future__ import annotations

import re
from contextlib import ExitStack
from pathlib import Path

import pytest

from loadtest.processes import free_port
from service.errors import StoreUnavailableError
from service.store import open_store
from service.store.base import Committed, Known, StoreOptions
from tests.support.cluster import state
from tests.support.compose import COMPOSE, ROOT
from tests.support.real_redis import RedisServer
from tests.support.sentinel import Watched
from tests.support.sessions import commit, digest, new_session
from tests.support.waiting import wait_until

DOCS = (ROOT / "docs" / "security.md").read_text()
SHIPPED = re.findall(r"\+[a-z|]+", COMPOSE["services"]["redis"]["command"].partition("--user bandit")[2])
ADDED = {
    where: re.findall(r"[+~][a-z|:*-]+", added.replace("\\|", "|"))
    for where, added in re.findall(r"^\| (.+?) \| (.*[+~].*) \|$", DOCS, re.M)
}
"""What the page adds to the shipped line, by deployment."""

PATIENT = {"replica_seconds": 10, "reply_seconds": 20, "ping_seconds": 20}
"""What a replica is given on a busy machine: these tests are about rights."""


def allow(server: RedisServer, *added: str) -> None:
    """Create the user ``small`` with the shipped rights and these."""
    keys = [word for word in added if word[0] == "~"] or ["~bandit:*"]
    commands = [word for word in added if word[0] == "+"]
    server.client.execute_command(
        "ACL", "SETUSER", "small", "reset", "on", ">secret", *keys, "resetchannels", "-@all", *SHIPPED, *commands
    )


async def use(url: str, **options: object) -> None:
    """Make every kind of call of the service to its store."""
    store = open_store(url, options=StoreOptions(**options))  # type: ignore[arg-type]
    try:
        await store.ping()
        await store.create(new_session(answer=(digest("c"), b"created")))
        changed = commit("v0", "v1", event_ids=[digest(1)], records={b"1": b"x"}, idle_ttl_ms=60_000)
        assert await store.commit(changed) == Committed()
        assert await store.commit(commit("v1", None, event_ids=[digest(1)])) == Known(frozenset([digest(1)]), {})
        assert await store.recall("s", digest("c")) == b"created"
        assert await store.read_records("s") == {b"1": b"x"}
        await store.list(None, 10)
        await store.reminders.remind("s", 0.0)
        await store.reminders.due(10)
        assert await store.reminders.acquire_lease("w", 1)
        assert await store.announce("w", [1], 1) == [{1}]
        assert await store.delete("s")
    finally:
        await store.close()


async def needs(server: RedisServer, url: str, where: str, refusal: str) -> None:
    """The shipped rights are too few there, and enough with what the page adds."""
    allow(server)
    with pytest.raises(StoreUnavailableError, match=refusal):
        await use(url)
    allow(server, *ADDED[where])
    await use(url)


def test_every_command_of_a_script_is_among_the_shipped_rights() -> None:
    scripts = [path.read_text() for path in (ROOT / "service/store/redis/lua").rglob("*.lua")]
    commands = {f"+{name.lower()}" for text in scripts for name in re.findall(r"redis\.p?call\(\s*'(\w+)'", text)}
    missing = commands - set(SHIPPED)

    assert len(commands) > 20
    assert not missing, f"docker-compose.yml: the line of the user bandit lacks {sorted(missing)}"


async def test_the_shipped_rights_are_enough_for_a_server(own_redis_server: RedisServer) -> None:
    allow(own_redis_server)
    await use(f"redis://small:secret@127.0.0.1:{own_redis_server.port}/0")


async def test_another_database_needs_one_more(own_redis_server: RedisServer) -> None:
    url = f"redis://small:secret@127.0.0.1:{own_redis_server.port}/1"
    await needs(own_redis_server, url, "another database than 0", r"NOPERM.*select|Invalid Database")


async def test_another_prefix_needs_its_keys(own_redis_server: RedisServer) -> None:
    allow(own_redis_server, *ADDED["`BANDIT_KEY_PREFIX=shop`"])
    await use(f"redis://small:secret@127.0.0.1:{own_redis_server.port}/0", prefix="shop")


@pytest.mark.slow
async def test_a_cluster_needs_its_map(server_program: str, tmp_path: Path) -> None:
    server = RedisServer(tmp_path, "--cluster-enabled", "yes", "--cluster-port", str(free_port())).start()
    try:
        server.client.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
        wait_until(lambda: state(server)["cluster_state"] == "ok")
        url = f"redis+cluster://small:secret@127.0.0.1:{server.port}"
        await needs(server, url, "`redis+cluster://`", r"NOPERM.*cluster\|slots")
    finally:
        server.close()


@pytest.mark.slow
async def test_sentinels_need_lists_of_their_own(server_program: str, tmp_path: Path) -> None:
    with ExitStack() as stack:
        watched = Watched(tmp_path, stack)
        allow(watched.master)
        rights = ADDED["user of the sentinels"]
        watched.sentinel.client.execute_command(
            "ACL", "SETUSER", "asker", "reset", "on", ">word", "resetchannels", "-@all", *rights
        )
        at = f"127.0.0.1:{watched.sentinel.port}"
        options = "sentinel_username=asker&sentinel_password=word"
        await use(f"redis+sentinel://small:secret@{at}/main?{options}", min_replicas=1, **PATIENT)
