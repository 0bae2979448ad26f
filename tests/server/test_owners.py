"""What workers hand over to the owner of a session, and what becomes of it when the owner dies, stops or starts."""

import asyncio
import contextlib
import itertools
import json
import os
import random
import re
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from zlib import crc32

import httpx
import pytest

from service.errors import OverloadedError
from service.server import owners as module
from service.server.owners import OLD_SECONDS, SILENT_SECONDS, Owners
from service.server.pool import Board
from service.telemetry.logs import ERROR_IN_SCOPE, IS_GONE, KEY_IN_SCOPE, NOTED_IN_SCOPE, PART, WAITED
from tests.support.api_keys import ADMIN, KEYS, bearer
from tests.support.http import http_client
from tests.support.running import RunningService, alive
from tests.support.waiting import until, wait_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only there requests are handed over")


def owned_by(place, workers=2):
    """A session that the worker at this place owns."""
    return next(name for name in map("s{}".format, itertools.count()) if crc32(name.encode()) % workers == place)


# -- Two workers in this process, whose calls are answered by the test.


class Worker:
    """One of two workers; ``answer`` is what its calls do."""

    def __init__(self, board, place):
        self.begun = []
        self.answer = self.echo
        self.hand_over = None
        runtime = SimpleNamespace(api_keys=SimpleNamespace(keys=[SimpleNamespace(name="ops")]))
        self.server = SimpleNamespace(runtime=runtime, server_state=SimpleNamespace(tasks=set()), should_exit=False)
        span = contextlib.nullcontext()
        spans = SimpleNamespace(of_request=lambda _: span, headers=lambda: [(b"traceparent", b"00")])
        self.owners = Owners(board, place, self.server, self, spans)

    async def carry_out(self, scope, body):
        self.begun.append(scope)
        return await self.answer(scope, body)

    async def echo(self, _, body):
        return 201, [(b"a", b"b")], body + b"!"


class Two:
    """Both workers; requests arrive at the first, and the second owns their session."""

    def __init__(self):
        self.board = Board.create(2)
        self.first, self.second = (Worker(self.board, place) for place in range(2))
        self.answer = None

    async def ask(self, path="act", body=b"{}", **options):
        name = owned_by(1)
        scope = {"type": "http", "method": "POST", "path": f"/v1/sessions/{name}/{path}", "query_string": b"q"}
        scope |= {"headers": [(b"x-other", b"1")], "path_params": {"session_id": name}} | options
        self.scope = scope
        self.answer = await self.first.hand_over(scope, body)
        return self.answer is not None

    def connection(self):
        return self.first.owners._connections[1]


@pytest.fixture
async def two():
    two = Two()
    for place, worker in enumerate((two.first, two.second)):
        await worker.owners.start()
        two.board.beat(place, 0)
    yield two
    for connection in two.first.owners._connections.values():
        await connection.opening
        connection.transport.close()
    for worker in (two.first, two.second):
        worker.owners.listener.close()
    for _ in range(5):  # Turns of the event loop, in which the other ends close.
        await asyncio.sleep(0)


async def test_the_owner_answers_what_changes_its_session(two):
    assert await two.ask(body=b"body", headers=[(b"content-type", b"json"), (b"x-other", b"1")])

    assert two.answer == (201, [(b"a", b"b")], b"body!")
    sent = {b"content-type": b"json", b"traceparent": b"00"}
    assert dict(two.second.begun[0]["headers"]) == sent
    assert 0 < two.second.begun[0][WAITED] < OLD_SECONDS


@pytest.mark.parametrize(
    "other", [{"method": "GET"}, {"path_params": {}}, {"path_params": {"session_id": owned_by(0)}}], ids=str
)
async def test_what_changes_no_session_of_another_stays(two, other):
    assert not await two.ask(**other)


async def test_keys_go_by_their_names_and_an_unknown_one_stays(two):
    assert await two.ask(**{KEY_IN_SCOPE: SimpleNamespace(name="ops")})
    assert not await two.ask(**{KEY_IN_SCOPE: SimpleNamespace(name="new")})
    assert [scope[KEY_IN_SCOPE].name for scope in two.second.begun] == ["ops"]


async def test_what_is_logged_of_an_answer_is_known_where_the_request_arrived(two):
    async def refuse(scope, body):
        scope[ERROR_IN_SCOPE] = SimpleNamespace(code="c", reason="r")
        scope[NOTED_IN_SCOPE] = {"changed": ["arms"]}
        return await two.second.echo(scope, body)

    two.second.answer = refuse
    assert await two.ask()
    assert vars(two.scope[ERROR_IN_SCOPE]) == {"code": "c", "reason": "r"}
    assert two.scope[NOTED_IN_SCOPE] == {"changed": ["arms"]}


async def dies(two, again, *asked, **options):
    """The owner begins what it is asked, and dies: it is done again, or refused."""

    async def die(_scope, _body):
        two.connection().transport.abort()
        await asyncio.Event().wait()

    two.second.answer = die
    with contextlib.nullcontext() if again else pytest.raises(OverloadedError, match="send it again"):
        assert not await two.ask(*asked, **options)
    for task in two.second.server.server_state.tasks:
        task.cancel()


@pytest.mark.parametrize(
    ("path", "body", "options", "again"),
    [
        ("act", b"{}", {}, False),
        ("act", b"{}", {"headers": [(b"idempotency-key", b"k")]}, True),
        ("", b"", {"headers": [(b"idempotency-key", b"k")], "method": "DELETE"}, False),
        ("feedback", b'{"event_id": "e"}', {}, True),
        ("feedback", b'{"event_id": null}', {}, False),
        ("feedbacks", b'{"events": [{"event_id": "e"}, {"event_id": "f"}]}', {}, True),
        ("feedbacks", b'{"events": [{"event_id": "e"}, {}]}', {}, False),
        ("feedbacks", b'{"events": 3}', {}, False),
        ("feedback", b"no json", {}, False),
    ],
)
async def test_what_an_owner_began_before_it_died_is_done_again_if_it_counts_once(two, path, body, options, again):
    await dies(two, again, path, body, **options)
    assert not again or WAITED not in two.scope  # It may be done: that it was not is what late calls are told.


@pytest.mark.parametrize(
    ("events", "part", "again"),
    [([{"event_id": "e"}], ["s"], True), ([{}], ["s"], False), ([{}], ["s", b"key", b"body"], True)],
)
async def test_a_part_of_a_call_goes_to_its_owner_with_its_events(two, events, part, again):
    async def settle(_, body):
        return 200, [], repr(body).encode()

    two.second.answer = settle
    assert await two.ask(body=events, **{PART: part})
    assert (two.answer[2], two.second.begun[0][PART]) == (repr(events).encode(), part)
    await dies(two, again, body=events, **{PART: part})


async def test_what_an_owner_has_not_begun_at_its_death_is_done_here(two):
    two.second.owners._begin = lambda connection, *_: connection.transport.abort()

    assert not await two.ask()
    assert await two.ask() is False
    assert two.second.begun == []


async def test_an_owner_that_is_dead_is_not_asked(two):
    two.board.forget(1)
    assert not await two.ask()
    two.board.beat(1, 0)
    assert await two.ask()


async def test_a_silent_owner_is_passed_over_and_does_nothing_when_it_goes_on(two, monkeypatch):
    late = []
    begin = two.second.owners._begin
    two.second.owners._begin = lambda *message: late.append(message)
    asked = asyncio.create_task(two.ask())
    await until(lambda: asyncio.sleep(0.001, bool(late)), 10)
    two.first.owners.look()
    assert not asked.done()
    now = time.monotonic()
    monkeypatch.setattr(module.time, "monotonic", lambda: now + SILENT_SECONDS + 0.01)
    two.first.owners.look()

    assert not await asked
    assert two.scope[WAITED] > SILENT_SECONDS
    begin(*late[0])
    assert two.second.begun == []
    assert OLD_SECONDS < SILENT_SECONDS


async def test_a_request_that_was_begun_is_waited_for(two, monkeypatch):
    go_on = asyncio.Event()

    async def slow(scope, body):
        await go_on.wait()
        return await two.second.echo(scope, body)

    two.second.answer = slow
    asked = asyncio.create_task(two.ask())
    await until(lambda: asyncio.sleep(0.001, bool(two.second.begun)), 10)
    now = time.monotonic()
    monkeypatch.setattr(module.time, "monotonic", lambda: now + 60)
    two.first.owners.look()
    go_on.set()

    assert await asked


async def test_the_owner_is_told_that_a_client_has_left(two):
    seen = asyncio.Event()

    async def look(scope, body):
        assert not scope["extensions"][IS_GONE]()
        await until(lambda: asyncio.sleep(0.001, scope["extensions"][IS_GONE]()), 10)
        seen.set()
        return await two.second.echo(scope, body)

    two.second.answer = look
    asked = asyncio.create_task(two.ask(extensions={IS_GONE: lambda: True}))
    await until(lambda: asyncio.sleep(0.001, bool(two.second.begun)), 10)
    two.first.owners.look()

    assert await asked
    assert seen.is_set()


async def test_an_owner_that_stops_begins_nothing(two):
    two.second.server.should_exit = True

    assert not await two.ask()
    assert two.second.begun == []


async def test_a_fault_before_the_answer_leaves_what_was_done_unknown(two, caplog):
    async def fail(*_):
        raise ZeroDivisionError

    two.second.answer = fail
    asyncio.get_running_loop().set_exception_handler(lambda *_: None)
    with pytest.raises(OverloadedError):
        await two.ask()


async def test_a_process_of_another_user_is_not_talked_to(two, monkeypatch):
    monkeypatch.setattr(module.os, "geteuid", lambda: -1)

    assert not await two.ask()
    assert two.second.begun == []


# -- Real workers on a real store.

CLIENTS = 6
"""Of each worker, at least."""
ONE_ARM = {"kind": "dexp3", "n_arms": 1}
SESSION = {"learner": {"kind": "dexp3", "n_arms": 3}, "seed": 1}


class Workers:
    """A service whose workers are known: clients by the process that took their connection."""

    def __init__(self, service, count, stack):
        self.service, self.count = service, count
        service.wait_serving(count)
        self.clients = {}
        while len(self.clients) < count or min(map(len, self.clients.values())) < CLIENTS:
            client = stack.enter_context(http_client(service.url))
            self.clients.setdefault(self._process_of(client), []).append(client)

    def _process_of(self, client):
        """Every refusal is logged, with its process."""
        answer = client.get("/v1/sessions/none")
        line = wait_until(lambda: re.search(f'.*"{answer.headers["x-request-id"]}".*', self.service.text()))
        return int(json.loads(line[0])["pid"])

    def process(self, place):
        return next(pid for pid in self.service.workers(self.count) if _place(pid) == place)

    def of(self, place):
        """Clients of the worker at this place."""
        return self.clients[self.process(place)]


def _place(pid):
    return int(Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[-2])


@pytest.fixture
def pool(tmp_path, own_redis_server):
    with contextlib.ExitStack() as stack:

        def start(count=2, *flags, **options):
            flags = ("--workers", str(count), "--store-url", own_redis_server.url, *flags)
            return Workers(stack.enter_context(RunningService(tmp_path, *flags, **options)), count, stack)

        yield start


def created(client, name, **fields):
    """The path of a new session."""
    client.post("/v1/sessions", json={"session_id": name} | SESSION | fields).raise_for_status()
    return f"/v1/sessions/{name}"


def slot(client, path):
    return int(client.get(path).json()["slot"])


def conflicts(client):
    """Conflicts and commits so far."""
    counts = dict(re.findall(r'bandit_commits_total\{outcome="(\w+)"\} (\S+)', client.get("/metrics").text))
    return float(counts["conflict"]), float(counts["committed"])


CALLS = [
    ("POST", "/act", None, {}),
    ("POST", "/acts", {"count": 3}, {"Idempotency-Key": "a"}),
    ("POST", "/acts", {"count": 3}, {"Idempotency-Key": "a"}),
    ("POST", "/acts", {"count": 4}, {"Idempotency-Key": "a"}),
    ("POST", "/act?q=1", None, {}),
    ("POST", "/feedback", {"arm": 1, "loss": 0.5, "event_id": "e"}, {}),
    ("POST", "/feedback", {"arm": 1, "loss": 0.5, "event_id": "e"}, {}),
    ("POST", "/feedback?on_surplus=skip", {"arm": 0, "loss": 0.5}, {}),
    ("POST", "/feedbacks", {"events": [{"arm": 7, "loss": 2}]}, {}),
    ("POST", "/feedbacks", {"events": []}, {"Content-Type": "text/plain"}),
    ("POST", "/feedbacks", {"events": [{"arm": 0, "loss": 0.5, "event_id": str(n)} for n in range(900)]}, {}),
    ("PATCH", "", {"floor": 0.01}, {}),
    ("PATCH", "/arms", {"add": [f"{n:0100}" for n in range(3000)]}, {"Idempotency-Key": "b"}),
    ("PATCH", "/arms", {"add": [f"{n:0100}" for n in range(3000)]}, {"Idempotency-Key": "b"}),
    ("PUT", "/arms", {"arms": ["x"] * 3}, {}),
    ("POST", "/act", [], {}),
    ("DELETE", "", None, {}),
    ("DELETE", "", None, {}),
]


@pytest.mark.processes
@pytest.mark.parametrize("key", [None, ADMIN])
def test_answers_that_were_handed_over_are_those_of_the_worker_itself(pool, key):
    environment = {} if key is None else {"BANDIT_API_KEYS": json.dumps(KEYS)}
    workers = pool(environment=environment)
    here, there = (client := workers.of(0)[0]), owned_by(1)
    client.headers = httpx.Headers({} if key is None else bearer(key))
    paths = [created(client, name, learner={"kind": "dexp3", "arms": ["a", "b"]}) for name in (owned_by(0), there)]
    told = []
    for path in paths:
        answers = [here.request(method, path + call, json=body, headers=more) for method, call, body, more in CALLS]
        left_out = {"date", "x-request-id"}
        told.append(
            [
                (
                    answer.status_code,
                    {name: value for name, value in answer.headers.items() if name not in left_out},
                    re.sub(r'"(\w+_at|version)":"[^"]+"', "", answer.text),
                )
                for answer in answers
            ]
        )

    assert told[0] == [(status, headers, text.replace(there, owned_by(0))) for status, headers, text in told[1]]
    assert {status for status, _, _ in told[0]} >= {200, 204, 404, 409, 415, 422}
    lines = workers.service.text().splitlines()
    logged = [json.loads(line) for line in lines if '"code": "invalid_request"' in line]
    assert {line["session"] for line in logged if "session" in line} == {owned_by(0), there}


@pytest.mark.processes
@pytest.mark.parametrize("kind", ["keys", "ids", "neither"])
def test_an_owner_killed_in_the_middle_of_requests(pool, own_redis_server, kind):
    """One waits for a frozen store, which will do what the dead owner sent; the others wait behind it."""
    workers = pool()
    senders, owner = workers.of(0)[:CLIENTS], workers.process(1)
    path = created(senders[0], owned_by(1))
    arms = [action["arm"] for action in senders[0].post(f"{path}/acts", json={"count": 50}).json()["actions"]]

    def ask(number):
        if kind == "ids":
            event = {"arm": arms[number], "loss": 0.5, "event_id": f"e{number}"}
            return senders[number].post(f"{path}/feedback", json=event)
        key = {"Idempotency-Key": f"k{number}"} if kind == "keys" else {}
        return senders[number].post(f"{path}/act", headers=key)

    with ThreadPoolExecutor(CLIENTS) as threads:
        own_redis_server.freeze()
        asked = [threads.submit(ask, number) for number in range(CLIENTS)]
        wait_until(own_redis_server.has_unread)
        os.kill(owner, signal.SIGKILL)
        wait_until(lambda: not alive(owner))
        own_redis_server.thaw()
        statuses = [each.result().status_code for each in asked]
    view = senders[0].get(path).json()

    if kind == "ids":
        assert statuses == [200] * CLIENTS
        assert (view["feedbacks"], view["outstanding"]) == (CLIENTS, 50 - CLIENTS)
    elif kind == "keys":
        assert statuses == [200] * CLIENTS
        assert view["slot"] == 50 + CLIENTS
    else:
        assert set(statuses) <= {200, 503}
        assert 50 + statuses.count(200) <= view["slot"] <= 50 + CLIENTS


@pytest.mark.processes
def test_an_owner_that_is_stopped_and_goes_on(pool):
    workers = pool()
    senders, owner = workers.of(0), workers.process(1)
    path = created(senders[0], owned_by(1))
    assert senders[0].post(f"{path}/act").json()["slot"] == 1
    os.kill(owner, signal.SIGSTOP)
    with ThreadPoolExecutor(len(senders)) as threads:
        begun = time.monotonic()
        answers = list(threads.map(lambda client: client.post(f"{path}/act"), senders))
        assert time.monotonic() - begun < 5
    os.kill(owner, signal.SIGCONT)

    assert sorted(answer.json()["slot"] for answer in answers) == list(range(2, 2 + len(senders)))
    assert workers.of(1)[0].get("/livez").status_code == 200
    for client in (*senders, *workers.of(1)):
        client.post(f"{path}/act").raise_for_status()
    assert slot(senders[0], path) == 1 + len(answers) + len(senders) + len(workers.of(1))


@pytest.mark.processes
def test_a_slow_store_is_no_dead_owner(pool, own_redis_server):
    client = pool().of(0)[0]
    path = created(client, owned_by(1))
    with ThreadPoolExecutor(1) as threads:
        own_redis_server.freeze()
        asked = threads.submit(client.post, f"{path}/act")
        until_late = time.monotonic() + 2 * SILENT_SECONDS
        wait_until(lambda: time.monotonic() > until_late)
        own_redis_server.thaw()
        assert asked.result().json()["slot"] == 1
    assert slot(client, path) == 1


@pytest.mark.processes
def test_a_stop_finishes_what_was_handed_over(pool, own_redis_server):
    workers = pool()
    clients = [client for place in range(2) for client in workers.of(place)]
    paths = [created(clients[0], owned_by(place)) for place in range(2)]
    with ThreadPoolExecutor(len(clients)) as threads:
        own_redis_server.freeze()
        asked = [threads.submit(client.post, f"{paths[n % 2]}/act") for n, client in enumerate(clients)]
        wait_until(own_redis_server.has_unread)
        workers.service.process.send_signal(signal.SIGTERM)
        wait_until(lambda: "received SIGTERM, stopping" in workers.service.messages())
        own_redis_server.thaw()
        assert [each.result().status_code for each in asked] == [200] * len(clients)

    assert workers.service.process.wait(30) == 0


def lines_of(names, number):
    return b"\n".join(
        json.dumps({"session_id": name, "arm": 0, "loss": 0.5, "event_id": f"e{number}"}).encode() for name in names
    )


NDJSON = {"Content-Type": "application/x-ndjson"}


@pytest.mark.processes
@pytest.mark.parametrize("count", [2, 4])
def test_workers_of_one_service_seldom_conflict(pool, count):
    """Events of a thousand sessions, fifty in a call, and acts of them and one, on connections of all workers."""
    workers = pool(count)
    clients = [client for place in range(count) for client in workers.of(place)[: 12 // count]]
    names = [f"s{n}" for n in range(1000)]
    paths = [created(clients[0], name, learner=ONE_ARM) for name in names]
    for path in paths:
        clients[0].post(f"{path}/acts", json={"count": 100}).raise_for_status()

    def report(client):
        chance, applied = random.Random(id(client)), 0
        for number in range(20):
            lines = lines_of(chance.sample(names, 50), chance.getrandbits(60))
            answer = client.post("/v1/feedbacks", content=lines, headers=NDJSON)
            assert answer.status_code == 200, (number, answer.text)
            applied += answer.json()["applied"]
        assert applied == 1000

    def visit(client):
        chance = random.Random(id(client))
        for _ in range(60):
            for path in (chance.choice(paths), paths[0]):
                client.post(f"{path}/act").raise_for_status()

    for calls, least in ((report, 1000), (visit, 0)):
        before = conflicts(clients[0])
        with ThreadPoolExecutor(len(clients)) as threads:
            list(threads.map(calls, clients))
        lost, made = (now - then for now, then in zip(conflicts(clients[0]), before, strict=True))
        assert made > least
        assert lost <= 0.05 * made


@pytest.mark.processes
@pytest.mark.parametrize("key", [{}, {"Idempotency-Key": "k"}], ids=["ids", "key"])
def test_an_owner_killed_in_the_middle_of_parts(pool, own_redis_server, key):
    workers = pool()
    client, owner = workers.of(0)[0], workers.process(1)
    names = [f"s{n}" for n in range(20)]
    for name in names:
        client.post(f"{created(client, name, learner=ONE_ARM)}/acts", json={"count": 3}).raise_for_status()
    lines = lines_of(names, 1).replace(b', "event_id": "e1"', b"") if key else lines_of(names, 1)

    def report():
        return client.post("/v1/feedbacks", content=lines, headers=NDJSON | key)

    with ThreadPoolExecutor(1) as threads:
        own_redis_server.freeze()
        asked = threads.submit(report)
        wait_until(own_redis_server.has_unread)
        os.kill(owner, signal.SIGKILL)
        wait_until(lambda: not alive(owner))
        own_redis_server.thaw()
        first = asked.result()
    again = wait_until(lambda: (answer := report()).status_code == 200 and answer)

    assert first.status_code == 200 or first.json()["unavailable_lines"]
    assert again.json()["applied" if key else "duplicates"] == len(names)
    assert {client.get(f"/v1/sessions/{name}").json()["feedbacks"] for name in names} == {1}


def keyed_act(client, path, key):
    """Act once, sent again until it is answered."""
    while True:
        with contextlib.suppress(httpx.TransportError):
            answer = client.post(f"{path}/act", headers={"Idempotency-Key": key})
            if answer.status_code != 503:
                answer.raise_for_status()
                return


@pytest.mark.processes
def test_workers_that_die_again_and_again_under_load(pool):
    """Each of three dies, then all at once; those that take their places are found."""
    workers = pool(3)
    service, paths = workers.service, [created(workers.of(0)[0], owned_by(place, 3)) for place in range(3)]
    done = [[], [], []]
    stop = threading.Event()

    def visit(thread):
        while not stop.is_set():
            with http_client(service.url) as client:
                for path, keys in zip(paths, done, strict=True):
                    key = f"{thread}-{time.monotonic_ns()}"
                    keyed_act(client, path, key)
                    keys.append(key)

    with ThreadPoolExecutor(6) as threads:
        visits = [threads.submit(visit, thread) for thread in range(6)]
        try:
            for dying in [(0,), (1,), (2,), (0, 1, 2)]:
                serving, enough = service.text().count(" serves"), sum(map(len, done)) + 50
                for pid in [workers.process(place) for place in dying]:
                    os.kill(pid, signal.SIGKILL)
                service.wait_serving(serving + len(dying))
                wait_until(partial(lambda enough: sum(map(len, done)) > enough, enough))
        finally:
            stop.set()
        for each in visits:
            each.result()
    with service.client() as last:
        assert [slot(last, path) for path in paths] == [len(keys) for keys in done]
        before = conflicts(last)
        for _ in range(100):
            with http_client(service.url) as fresh:
                fresh.post(f"{paths[0]}/act").raise_for_status()
        lost, made = conflicts(last)

    assert (lost - before[0], made - before[1]) == (0, 100)
