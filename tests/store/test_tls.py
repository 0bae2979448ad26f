"""Stores over TLS: one server, a master that sentinels name, a cluster; trusted, or told why not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from urllib.parse import quote

import pytest

from loadtest.processes import free_port
from service.errors import StoreUnavailableError
from service.store import open_store
from service.store.base import Committed, Store, StoreOptions
from tests.support.real_redis import RedisServer
from tests.support.running import RunningService
from tests.support.sessions import commit, digest, new_session
from tests.support.tls import Authority, TlsSentinel, TlsServer
from tests.support.waiting import wait_until

SECRET = "p@s:s/w%rd#?"
HASTY = StoreOptions(retry_seconds=0.1)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "authority")


@pytest.fixture
def server(tmp_path: Path, authority: Authority) -> Iterator[RedisServer]:
    server = TlsServer(tmp_path / "server", authority)
    server.start()
    server.client.config_set("requirepass", SECRET)
    yield server
    server.close()


def with_password(server: RedisServer) -> str:
    return server.url.replace("//", f"//:{quote(SECRET, safe='')}@")


async def serves(store: Store, session_id: str = "s") -> None:
    await store.ping()
    assert (await store.create(new_session(session_id, idle_ttl_ms=60_000))).version == "v0"
    assert await store.commit(commit("v0", "v1", session_id=session_id, event_ids=[digest(1)])) == Committed()


async def test_a_server_is_trusted_by_its_own_authority(server: RedisServer, authority: Authority) -> None:
    store = open_store(f"{with_password(server)}?{authority.option}")
    await serves(store)
    await store.close()


@pytest.mark.servers("redis-server")
async def test_another_authority_is_told_without_the_password(server: RedisServer, tmp_path: Path) -> None:
    other = Authority(tmp_path / "other")
    store = open_store(f"{with_password(server)}?{other.option}", options=HASTY)
    with pytest.raises(StoreUnavailableError, match="CERTIFICATE_VERIFY_FAILED") as caught:
        await store.ping()

    assert SECRET not in str(caught.value)
    await store.close()


@pytest.mark.servers("redis-server")
def test_a_service_that_does_not_trust_its_store_says_so_at_the_start(server: RedisServer, tmp_path: Path) -> None:
    other = Authority(tmp_path / "other")
    with RunningService(tmp_path, "--store-url", f"{with_password(server)}?{other.option}") as service:
        wait_until(lambda: any("CERTIFICATE_VERIFY_FAILED" in message for message in service.messages()))

        assert SECRET not in service.text()
        assert quote(SECRET, safe="") not in service.text()
        assert service.stop() == 0


@pytest.mark.servers("redis-server")
@pytest.mark.parametrize("name", ["localhost", "elsewhere"])
def test_a_service_checks_the_name_in_its_url(tmp_path: Path, name: str) -> None:
    """The name, not the address that a worker finds for it, is in the certificate."""
    authority = Authority(tmp_path / "authority", f"DNS:{name}")
    server = TlsServer(tmp_path / "server", authority)
    server.start()
    url = f"{server.url.replace('127.0.0.1', 'localhost')}?{authority.option}"
    with closing(server), RunningService(tmp_path, "--store-url", url) as service:
        if name == "localhost":
            service.wait_ready()
        else:
            wait_until(lambda: any("Hostname mismatch" in message for message in service.messages()))


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ("ssl_ca_certs=/no/such/file", "ssl_ca_certs.*No such file"),
        ("ssl_ca_certs={here}", "ssl_ca_certs"),
        ("ssl_certfile=/no/such/file", "ssl_certfile.*No such file"),
        ("ssl_cert_reqs=perhaps", "makes no sense"),
        ("ssl_hunter2=1", "makes no sense"),
    ],
)
@pytest.mark.parametrize("kind", ["rediss://{}", "rediss+sentinel://{}/main", "rediss+cluster://{}"])
def test_files_and_options_that_cannot_be_used_are_told_at_once(kind: str, options: str, told: str) -> None:
    address = f"{kind.format(':hunter2@host')}?{options.format(here=quote(__file__, safe=''))}"
    with pytest.raises(ValueError, match=told) as caught:
        open_store(address)

    assert "hunter" not in str(caught.value)


def test_options_of_tls_without_tls_are_refused() -> None:
    with pytest.raises(ValueError, match="rediss"):
        open_store("redis://host?ssl_ca_certs=x")


@pytest.mark.servers("redis-server")
async def test_sentinels_and_their_master_speak_tls(tmp_path: Path, authority: Authority) -> None:
    with ExitStack() as stack:
        master = TlsServer(tmp_path / "master", authority)
        stack.callback(master.close)
        master.start()
        sentinel = TlsSentinel(tmp_path / "sentinel", authority, master.tls_port)
        stack.callback(sentinel.close)
        sentinel.start()
        wait_until(lambda: "s_down" not in sentinel.client.sentinel_masters()["main"]["flags"])

        store = open_store(f"rediss+sentinel://127.0.0.1:{sentinel.tls_port}/main?{authority.option}")
        await serves(store)
        await store.close()
        plain = open_store(f"redis+sentinel://127.0.0.1:{sentinel.tls_port}/main", options=HASTY)
        with pytest.raises(StoreUnavailableError):
            await plain.ping()
        await plain.close()

        assert master.client.exists("bandit:{s}")


@pytest.mark.servers("redis-server")
async def test_masters_of_a_cluster_are_found_over_tls(tmp_path: Path, authority: Authority) -> None:
    """Only the first of two is named; it tells of the other one's TLS port."""
    with ExitStack() as stack:
        nodes = []
        for n in range(2):
            bus = free_port()
            flags = f"--cluster-enabled yes --tls-cluster yes --cluster-port {bus}"
            node = TlsServer(tmp_path / str(n), authority, *flags.split())
            stack.callback(node.close)
            node.start()
            node.client.execute_command("CLUSTER", "SET-CONFIG-EPOCH", n + 1)
            node.client.execute_command("CLUSTER", "ADDSLOTSRANGE", 8192 * n, 8192 * n + 8191)
            nodes.append((node, bus))
        (first, _), (second, bus) = nodes
        first.client.execute_command("CLUSTER", "MEET", "127.0.0.1", second.tls_port, bus)
        for node, _ in nodes:
            wait_until(lambda node=node: node.client.execute_command("CLUSTER INFO")["cluster_state"] == "ok")

        store = open_store(f"rediss+cluster://127.0.0.1:{first.tls_port}?{authority.option}")
        for n in range(8):
            await serves(store, f"s{n}")
        assert len((await store.list(None, 100)).session_ids) == 8
        await store.close()

        assert min(node.client.dbsize() for node, _ in nodes) > 0
