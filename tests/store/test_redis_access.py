"""Who may use a Redis: passwords, rights and TLS."""

import re
import traceback
from contextlib import ExitStack, closing
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadtest.processes import free_port
from service.errors import StoreUnavailableError
from service.store import PLAIN_URL, check_url, open_store
from service.store.base import Committed, Store, StoreOptions
from service.store.redis.store import RedisStore
from tests.support.cluster import state
from tests.support.compose import COMPOSE, ROOT
from tests.support.examples import examples
from tests.support.real_redis import RedisServer
from tests.support.running import RunningService
from tests.support.sentinel import Watched
from tests.support.sessions import commit, digest, new_session, use
from tests.support.tls import Authority, TlsSentinel, TlsServer
from tests.support.waiting import wait_until

# -- URLs, passwords and users: what works, and that no secret is ever shown.

SECRET = "p@s:s/w%rd#?&=+ ü\"'"


@pytest.fixture
def guarded_server(server_program, tmp_path):
    server = RedisServer(tmp_path).start()
    server.client.config_set("requirepass", SECRET)
    server.client.execute_command("AUTH", SECRET)
    yield server
    server.close()


def url(server: RedisServer, user: str = "", password: str = SECRET) -> str:
    return f"redis://{user}:{quote(password, safe='')}@127.0.0.1:{server.port}/0"


async def test_any_password_works_when_it_is_percent_encoded(guarded_server):
    store = RedisStore(url(guarded_server))
    await store.ping()
    assert (await store.create(new_session())).version == "a-0"


async def test_a_wrong_or_missing_password_is_told_without_it(guarded_server):
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


async def test_a_user_without_a_needed_command_is_told_so(guarded_server):
    guarded_server.client.execute_command("ACL", "SETUSER", "small", "on", f">{SECRET}", "~*", "+@all", "-hset")
    store = RedisStore(url(guarded_server, "small"))
    with pytest.raises(StoreUnavailableError, match="permission"):
        await store.create(new_session())


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
def test_an_url_that_makes_no_sense_is_refused_without_showing_it(bad):
    for check in (open_store, check_url):
        with pytest.raises(ValueError, match="store") as caught:
            check(bad)
        assert "hunter" not in "".join(traceback.format_exception(caught.value)).split("ValueError")[-1]


@pytest.mark.parametrize("port", ["0", "65536", "99999", "9" * 5_000])
@pytest.mark.parametrize(
    "url", ["redis://:hidden@a:{}/0", "rediss://a:{}", "redis+cluster://a:1,b:{}", "redis+sentinel://a:{},b/c"]
)
def test_a_port_that_is_none_is_told(url, port):
    with pytest.raises(ValueError, match="a port in the store URL is not one of 1 to 65535") as error:
        open_store(url.format(port))
    assert "hidden" not in str(error.value)


@settings(max_examples=examples(50), deadline=None)
@given(st.from_regex(PLAIN_URL, fullmatch=True))
def test_every_url_that_is_not_read_before_it_is_opened_can_be_opened(url):
    open_store(url)


def test_an_embedded_url_is_the_parents_business():
    with pytest.raises(ValueError, match="parent"):
        open_store("embedded:")


async def test_nothing_listens_there(tmp_path):
    for address in ("redis://:hunter2@127.0.0.1:1/0", f"unix://{quote(str(tmp_path))}/none.sock?password=hunter2"):
        store = open_store(address)
        with pytest.raises(StoreUnavailableError, match="no connection") as caught:
            await store.ping()
        assert "hunter2" not in "".join(traceback.format_exception(caught.value))


# -- The access lists of docs/security.md on real servers: enough for the service, for each deployment.

DOCS = (ROOT / "docs" / "security.md").read_text()
SHIPPED = re.findall(r"\+[a-z|]+", COMPOSE["services"]["redis"]["command"].partition("--user bandit")[2])
NEEDED = re.findall(r"^\| (.+?) \| (.*[+~].*) \|$", DOCS, re.M)
ADDED = {where: re.findall(r"[+~][a-z|:*-]+", added.replace("\\|", "|")) for where, added in NEEDED}
"""What the page adds to the shipped line, by deployment."""

PATIENT = {"replica_seconds": 10, "reply_seconds": 20}
"""What a replica is given on a busy machine: these tests are about rights."""


def allow(server: RedisServer, *added: str) -> None:
    """Create the user ``small`` with the shipped rights and these."""
    keys = [word for word in added if word[0] == "~"] or ["~bandit:*"]
    commands = [word for word in added if word[0] == "+"]
    server.client.execute_command(
        "ACL", "SETUSER", "small", "reset", "on", ">secret", *keys, "resetchannels", "-@all", *SHIPPED, *commands
    )


async def needs(server: RedisServer, url: str, where: str, refusal: str) -> None:
    """The shipped rights are too few there, and enough with what the page adds."""
    allow(server)
    with pytest.raises(StoreUnavailableError, match=refusal):
        await use(url)
    allow(server, *ADDED[where])
    await use(url)


async def test_the_shipped_rights_are_enough_for_a_server(own_redis_server):
    allow(own_redis_server)
    await use(f"redis://small:secret@127.0.0.1:{own_redis_server.port}/0")


async def test_another_database_needs_one_more(own_redis_server):
    url = f"redis://small:secret@127.0.0.1:{own_redis_server.port}/1"
    await needs(own_redis_server, url, "another database than 0", r"NOPERM.*select|Invalid Database")


async def test_another_prefix_needs_its_keys(own_redis_server):
    allow(own_redis_server, *ADDED["`BANDIT_KEY_PREFIX=shop`"])
    await use(f"redis://small:secret@127.0.0.1:{own_redis_server.port}/0", prefix="shop")


@pytest.mark.slow
async def test_a_cluster_needs_its_map(server_program, tmp_path):
    server = RedisServer(tmp_path, "--cluster-enabled", "yes", "--cluster-port", str(free_port())).start()
    try:
        server.client.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
        wait_until(lambda: state(server)["cluster_state"] == "ok")
        url = f"redis+cluster://small:secret@127.0.0.1:{server.port}"
        await needs(server, url, "`redis+cluster://`", r"NOPERM.*cluster\|slots")
    finally:
        server.close()


@pytest.mark.slow
async def test_sentinels_need_lists_of_their_own(server_program, tmp_path):
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


# -- Stores over TLS: one server, a master that sentinels name, a cluster; trusted, or told why not.

TLS_SECRET = "p@s:s/w%rd#?"
HASTY = StoreOptions(retry_seconds=0.1)


@pytest.fixture
def authority(tmp_path):
    return Authority(tmp_path / "authority")


@pytest.fixture
def tls_server(tmp_path, authority):
    tls_server = TlsServer(tmp_path / "tls_server", authority)
    tls_server.start()
    tls_server.client.config_set("requirepass", TLS_SECRET)
    yield tls_server
    tls_server.close()


def with_password(tls_server: RedisServer) -> str:
    return tls_server.url.replace("//", f"//:{quote(TLS_SECRET, safe='')}@")


async def serves(store: Store, session_id: str = "s") -> None:
    await store.ping()
    assert (await store.create(new_session(session_id, idle_ttl_ms=60_000))).version == "a-0"
    assert await store.commit(commit("a-0", "a-1", session_id=session_id, event_ids=[digest(1)])) == Committed()


async def test_a_server_is_trusted_by_its_own_authority(tls_server, authority):
    await serves(open_store(f"{with_password(tls_server)}?{authority.option}"))


@pytest.mark.servers("redis-server")
async def test_another_authority_is_told_without_the_password(tls_server, tmp_path):
    other = Authority(tmp_path / "other")
    store = open_store(f"{with_password(tls_server)}?{other.option}", options=HASTY)
    with pytest.raises(StoreUnavailableError, match="CERTIFICATE_VERIFY_FAILED") as caught:
        await store.ping()

    assert TLS_SECRET not in str(caught.value)


@pytest.mark.servers("redis-server")
def test_a_service_that_does_not_trust_its_store_says_so_at_the_start(tls_server, tmp_path):
    other = Authority(tmp_path / "other")
    with RunningService(tmp_path, "--store-url", f"{with_password(tls_server)}?{other.option}") as service:
        wait_until(lambda: any("CERTIFICATE_VERIFY_FAILED" in message for message in service.messages()))

        assert TLS_SECRET not in service.text()
        assert quote(TLS_SECRET, safe="") not in service.text()
        assert service.stop() == 0


@pytest.mark.servers("redis-server")
@pytest.mark.parametrize("name", ["localhost", "elsewhere"])
def test_a_service_checks_the_name_in_its_url(tmp_path, name):
    """The name, not the address that a worker finds for it, is in the certificate."""
    authority = Authority(tmp_path / "authority", f"DNS:{name}")
    tls_server = TlsServer(tmp_path / "tls_server", authority)
    tls_server.start()
    url = f"{tls_server.url.replace('127.0.0.1', 'localhost')}?{authority.option}"
    with closing(tls_server), RunningService(tmp_path, "--store-url", url) as service:
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
def test_files_and_options_that_cannot_be_used_are_told_at_once(kind, options, told):
    address = f"{kind.format(':hunter2@host')}?{options.format(here=quote(__file__, safe=''))}"
    with pytest.raises(ValueError, match=told) as caught:
        open_store(address)

    assert "hunter" not in str(caught.value)


def test_options_of_tls_without_tls_are_refused():
    with pytest.raises(ValueError, match="rediss"):
        open_store("redis://host?ssl_ca_certs=x")


@pytest.mark.servers("redis-server")
async def test_sentinels_and_their_master_speak_tls(tmp_path, authority):
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
        plain = open_store(f"redis+sentinel://127.0.0.1:{sentinel.tls_port}/main", options=HASTY)
        with pytest.raises(StoreUnavailableError):
            await plain.ping()

        assert master.client.exists("bandit:{s}")


@pytest.mark.servers("redis-server")
async def test_masters_of_a_cluster_are_found_over_tls(tmp_path, authority):
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
        assert len((await store.list(None, 100)).sessions) == 8

        assert min(node.client.dbsize() for node, _ in nodes) > 0
