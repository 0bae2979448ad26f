"""Passwords of stores are shown nowhere."""

import os
import signal
import subprocess
import sys
from contextlib import ExitStack
from itertools import chain, cycle
from typing import NamedTuple
from urllib.parse import quote

import pytest

from loadtest.processes import free_port
from tests.support.collector import Collector
from tests.support.http import http_client
from tests.support.programs import REDIS, WHEEL
from tests.support.real_redis import RedisServer
from tests.support.running import RunningService
from tests.support.tls import Authority, TlsSentinel, TlsServer, watched
from tests.support.waiting import wait_until

PASSWORD = "pEar@:/#?%,& =+plUm'\"ü"
PARTS = ("pEar", "plUm", "wrOng")
"""Of the password as it is, percent-encoded, or cut into pieces."""
USER = "shopper"


def shows(text):
    """Which parts of the passwords a text shows."""
    return [part for part in PARTS if part in text]


class Place(NamedTuple):
    """A store with a user whose password is ``PASSWORD``."""

    url: str
    """With ``{user}`` and ``{password}``, and where sentinels have a password of their own ``{sentinel}``."""
    servers: list[RedisServer]

    def with_password(self, password, sentinel=PASSWORD):
        words = {"user": USER, "password": password, "sentinel": sentinel}
        return self.url.format(**{name: quote(word, safe="") for name, word in words.items()})


def guarded(server):
    server.client.acl_setuser(USER, enabled=True, passwords=[f"+{PASSWORD}"], keys=["*"], commands=["+@all"])
    return server


class Places:
    """Starts the servers of a kind of URL."""

    def __init__(self, folder, stack):
        self._folder = folder
        self._stack = stack
        self._authority: Authority | None = None

    @property
    def authority(self):
        self._authority = self._authority or Authority(self._folder / "authority")
        return self._authority

    def server(self, *flags, tls=False):
        folder = self._folder / "server"
        folder.mkdir()
        server = TlsServer(folder, self.authority, *flags) if tls else RedisServer(folder, *flags)
        self._stack.callback(server.close)
        return guarded(server.start())

    def one(self, address, *, tls=False):
        socket = str(self._folder / "socket")
        server = self.server("--unixsocket", socket, tls=tls)
        port = server.tls_port if isinstance(server, TlsServer) else server.port
        option = self.authority.option if tls else ""
        return Place(address.replace("PORT", str(port)).replace("SOCKET", socket).replace("TLS", option), [server])

    def cluster(self, *, tls=False):
        bus = str(free_port())
        flags = ("--cluster-enabled", "yes", "--cluster-port", bus, *(("--tls-cluster", "yes") if tls else ()))
        server = self.server(*flags, tls=tls)
        server.client.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
        wait_until(lambda: server.client.execute_command("CLUSTER INFO")["cluster_state"] == "ok")
        port = server.tls_port if isinstance(server, TlsServer) else server.port
        scheme, option = ("rediss", f"?{self.authority.option}") if tls else ("redis", "")
        return Place(f"{scheme}+cluster://{{user}}:{{password}}@127.0.0.1:{port}{option}", [server])

    def sentinel(self, *, tls=False):
        master = self.server(tls=tls)
        folder = self._folder / "sentinel"
        sentinel: RedisServer
        if isinstance(master, TlsServer):
            sentinel = TlsSentinel(folder, self.authority, master.tls_port)
            port = sentinel.tls_port
        else:
            sentinel = RedisServer(folder, "--sentinel")
            sentinel.configure(f"{watched(master.port)}\n")
            port = sentinel.port
        self._stack.callback(sentinel.close)
        guarded(sentinel.start())
        wait_until(lambda: "s_down" not in sentinel.client.sentinel_masters()["main"]["flags"])
        scheme, option = ("rediss", f"&{self.authority.option}") if tls else ("redis", "")
        query = f"sentinel_username={{user}}&sentinel_password={{sentinel}}{option}"
        url = f"{scheme}+sentinel://{{user}}:{{password}}@127.0.0.1:{port}/main/0?{query}"
        return Place(url, [master, sentinel])


KINDS = {
    "redis": lambda places: places.one("redis://{user}:{password}@127.0.0.1:PORT/0"),
    "redis, in the query": lambda places: places.one(
        "redis://127.0.0.1:PORT/0?username={user}&password={password}"
    ),
    "unix": lambda places: places.one("unix://{user}:{password}@SOCKET"),
    "unix, in the query": lambda places: places.one("unix://SOCKET?username={user}&password={password}"),
    "rediss": lambda places: places.one("rediss://{user}:{password}@127.0.0.1:PORT/0?TLS", tls=True),
    "redis+sentinel": lambda places: places.sentinel(),
    "rediss+sentinel": lambda places: places.sentinel(tls=True),
    "redis+cluster": lambda places: places.cluster(),
    "rediss+cluster": lambda places: places.cluster(tls=True),
}


# -- A running service shows no password of its store's URL: whatever the kind of URL, whatever goes wrong.

pytestmark = pytest.mark.processes
WRONG = f"wrOng{PASSWORD}"


def on_servers(kind):
    """A kind of URL on the wheel's server; with TLS, which that lacks, and once without, on ``redis-server``."""
    if not kind.startswith("rediss"):
        yield pytest.param((kind, WHEEL), id=f"{kind} of valkey")
    if kind.startswith("rediss") or kind == "redis":
        yield pytest.param((kind, REDIS), id=f"{kind} of redis", marks=pytest.mark.servers(REDIS))


@pytest.fixture(params=chain.from_iterable(map(on_servers, KINDS)))
def place(request, tmp_path, monkeypatch):
    kind, program = request.param
    monkeypatch.setattr(RedisServer, "program", program)
    with ExitStack() as stack:
        yield KINDS[kind](Places(tmp_path, stack))


def service_on(tmp_path, url, **variables):
    flags = ("--log-level", "debug", "--log-sample", "1", "--store-budget-seconds", "0.3")
    return RunningService(tmp_path, *flags, environment={"BANDIT_STORE_URL": url, **variables})


def asked(client):
    """Answers of every route that tells something of the store."""
    body = {"learner": {"kind": "dexp3", "n_arms": 3}, "session_id": "s"}
    paths = ("/readyz", "/v1/sessions", "/v1/sessions/s", "/metrics", "/openapi.json", "/nowhere")
    posts = [client.post("/v1/sessions", json=body), client.post("/v1/sessions/s/act")]
    return [*posts, *(client.get(path) for path in paths)]


def told(answers):
    return "".join(answer.text + str(answer.headers) for answer in answers)


def test_a_password_is_shown_neither_while_it_serves_nor_when_its_store_is_gone(tmp_path, place):
    with (
        Collector() as collector,
        service_on(
            tmp_path,
            place.with_password(PASSWORD),
            OTEL_EXPORTER_OTLP_ENDPOINT=collector.url,
            OTEL_BSP_SCHEDULE_DELAY="50",
        ) as service,
        service.client() as client,
    ):
        served = asked(client)
        (worker,) = service.workers()
        os.kill(worker, signal.SIGABRT)
        wait_until(lambda: any("a worker ended with -6" in message for message in service.messages()))
        service.wait_ready()
        for server in place.servers:
            server.close()
        gone = asked(client)
        wait_until(lambda: any(span.status.code == 2 for span in collector.spans()))
        assert service.stop() == 0

    assert [answer.status_code for answer in served[:3]] == [201, 200, 200]
    assert [answer.status_code for answer in gone[:3]] == [503, 503, 503]
    assert shows(told(served + gone) + service.text() + repr(collector.bodies)) == []


def test_a_wrong_password_is_not_shown(tmp_path, place):
    wrong = [place.with_password(WRONG)]
    if "{sentinel}" in place.url:
        wrong.append(place.with_password(PASSWORD, sentinel=WRONG))
    for url in wrong:
        with service_on(tmp_path, url) as service, http_client(service.url) as client:
            service.workers()
            answers = asked(client)
            assert service.stop() == 0

        assert [answer.status_code for answer in answers[:3]] == [503, 503, 503]
        assert shows(told(answers) + service.text()) == []


def test_a_server_that_echoes_what_it_does_not_know_is_not_quoted(tmp_path, server_program):
    with ExitStack() as stack:
        folder = tmp_path / "server"
        folder.mkdir()
        server = RedisServer(folder, "--rename-command", "AUTH", "LOGIN").start()
        stack.callback(server.close)
        url = f"redis://:{quote(PASSWORD, safe='')}@127.0.0.1:{server.port}/0"
        service = stack.enter_context(service_on(tmp_path, url))
        client = stack.enter_context(http_client(service.url))
        service.workers()
        answers = asked(client)
        assert service.stop() == 0

    assert "unknown command" in answers[0].json()["detail"]
    assert shows(told(answers) + service.text()) == []


# -- Settings that make no sense are refused without the password that stands in them.

SPELLINGS = [
    "redis://shopper:pEar/plUm@127.0.0.1:1/0",
    "redis://shopper:1/plUm@127.0.0.1:1/0",
    "redis://shopper:1#plUm@127.0.0.1:1/0",
    "redis://shopper:1?plUm@127.0.0.1:1/0",
    "redis://shopper:pEar plUm@127.0.0.1:port/0",
    "redis://shopper:pEar@plUm@[127.0.0.1:1/0",
    "redis://127.0.0.1:1/0?password=pEar@plUm",
    "redis://127.0.0.1:1/0?passwort=pEar",
    "redis://127.0.0.1:1/0?db=pEar",
    "redis://127.0.0.1:1/pEar",
    "unix://shopper:1/plUm@/tmp/none.sock",
    "unix://pEar/tmp/none.sock",
    "rediss://shopper:pEar@127.0.0.1:1/0?ssl_ca_certs=/none/plUm.pem",
    "rediss://127.0.0.1:1/0?ssl_pEar=plUm",
    "redis+sentinel://shopper:pEar@127.0.0.1:1",
    "redis+sentinel://shopper:1/plUm@127.0.0.1:1",
    "redis+sentinel://shopper:1/plUm@127.0.0.1:1/main",
    "redis+sentinel://shopper:pEar@127.0.0.1:plUm/main",
    "rediss+sentinel://shopper:pEar@/main",
    "redis+cluster://shopper:pEar@127.0.0.1:1/0",
    "redis+cluster://shopper:1/plUm@127.0.0.1:1",
    "rediss+cluster://shopper:pEar@127.0.0.1:1?ssl_cert_reqs=plUm",
    "postgres://shopper:pEar@127.0.0.1",
    "shopper:pEar@127.0.0.1",
    "embedded:pEar",
    "memory://pEar",
]


@pytest.mark.parametrize(("url", "way"), list(zip(SPELLINGS, cycle(["variable", "flag"]), strict=False)))
def test_an_url_that_makes_no_sense_is_a_bad_setting_that_is_not_shown(tmp_path, url, way):
    words = ("--store-url", url) if way == "flag" else ()
    variables = {"BANDIT_STORE_URL": url} if way == "variable" else {}
    with RunningService(tmp_path, *words, environment=variables) as service:
        wait_until(lambda: service.process.poll() is not None or "listening" in service.text())

        assert service.process.poll() == 2, service.text()
        assert "--store-url" in service.text()
        assert shows(service.text()) == []


@pytest.mark.quick
@pytest.mark.parametrize(
    "words",
    [
        ("--store-ulr", "redis://shopper:pEar@127.0.0.1"),
        ("--store-ulr=redis://shopper:pEar@127.0.0.1",),
        ("redis://shopper:pEar@127.0.0.1",),
        ("--store-url", "redis://shopper:pEar@127.0.0.1", "--port", "redis://shopper:plUm@127.0.0.1"),
        ("--store-url", "redis://shopper:pEar@127.0.0.1", "--store-url", "redis://shopper:plUm@127.0.0.1:port"),
        ("--log-level", "redis://shopper:pEar@127.0.0.1"),
        ("--workers", "redis://shopper:pEar@127.0.0.1"),
    ],
)
def test_a_flag_that_makes_no_sense_is_not_shown_with_its_value(words):
    command = [sys.executable, "-m", "service", "--port", "0", *words]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)

    assert ended.returncode == 2
    assert "--" in ended.stderr
    assert shows(ended.stderr + ended.stdout) == []
