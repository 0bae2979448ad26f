"""The service on every store: processes share it, restarts keep it, ends leave nothing, failures are told."""

import asyncio
import itertools
import random
import time

import pytest

from service.learners import dexp3 as dexp3_log
from service.store import open_store
from service.store.base import StoreOptions
from service.store.memory import MemoryStore
from service.store.redis import scripts
from service.store.redis.store import RECORDS_AT_ONCE, RedisStore
from tests.support.one_session import PATH, moved
from tests.support.sessions import commit, new_session
from tests.support.waiting import wait_until

SESSION = {"session_id": "s", "learner": {"kind": "dexp3", "n_arms": 4}, "seed": 3}


@pytest.fixture
def shared(store_url, store, store_options):
    """Opens the store as another process would; the memory store is one process's."""
    return lambda: store if store_url == "memory://" else open_store(store_url, options=store_options)


@pytest.fixture
async def clients(make_client, store, shared):
    """Of two processes."""
    return [await make_client(store), await make_client(shared())]


async def test_two_processes_on_one_session_lose_nothing_and_count_nothing_twice(clients):
    await clients[0].post("/v1/sessions", json=SESSION)

    async def visit(number):
        client = clients[number % 2]
        action = (await client.post(f"{PATH}/act")).json()
        event = {"arm": action["arm"], "loss": 0.25, "event_id": str(number)}
        answers = [await each.post(f"{PATH}/feedback", json=event) for each in (client, clients[1 - number % 2])]
        return action["slot"], [answer.json()["applied"] for answer in answers]

    visits = await asyncio.gather(*(visit(number) for number in range(100)))

    assert sorted(slot for slot, _ in visits) == list(range(1, 101))
    assert [applied for _, applied in visits] == [[1, 0]] * 100
    for client in clients:
        view = (await client.get(PATH)).json()
        assert (view["slot"], view["feedbacks"], view["outstanding"]) == (100, 100, 0)


async def test_one_key_on_two_processes_opens_one_slot(clients):
    await clients[0].post("/v1/sessions", json=SESSION)

    key = {"Idempotency-Key": "k"}
    answers = await asyncio.gather(*(client.post(f"{PATH}/act", headers=key) for client in clients * 10))

    assert len({answer.text for answer in answers}) == 1
    assert (await clients[1].get(PATH)).json()["slot"] == 1


async def test_a_stale_cache_refuses_nothing_that_the_store_would_take(clients):
    first, second = clients
    await first.post("/v1/sessions", json=SESSION)
    await first.post(f"{PATH}/act")
    arm = (await second.post(f"{PATH}/act")).json()["arm"]

    assert (await first.post(f"{PATH}/feedback", json={"arm": arm, "loss": 0.5})).json()["applied"] == 1


async def test_a_session_made_anew_elsewhere_is_served_as_it_is_now(clients):
    first, second = clients
    await first.post("/v1/sessions", json=SESSION)
    await first.post(f"{PATH}/act")
    await second.delete(PATH)
    await second.post("/v1/sessions", json=SESSION | {"learner": {"kind": "dexp3", "n_arms": 9}})

    refused = await first.post(f"{PATH}/feedback", json={"arm": 8, "loss": 0.5})
    action = await first.post(f"{PATH}/act")

    assert (refused.status_code, refused.json()["code"]) == (409, "surplus_feedback")
    assert action.json()["probability"] == pytest.approx(1 / 9)


async def test_a_restart_changes_no_number(make_client, redis_server):
    client, twin = await make_client(open_store(redis_server.url)), await make_client(open_store(redis_server.url))
    for session_id in ("s", "twin"):
        await client.post("/v1/sessions", json=SESSION | {"session_id": session_id, "idle_ttl_seconds": 60.0})
    seen = {}
    for session_id, after in (("s", client), ("twin", twin)):
        for caller in (client, after):
            for _ in range(10):
                event = {"arm": (await caller.post(f"/v1/sessions/{session_id}/act")).json()["arm"], "loss": 0.5}
                await caller.post(f"/v1/sessions/{session_id}/feedback", json=event)
        seen[session_id] = (await client.get(f"/v1/sessions/{session_id}")).json()

    for name in ("slot", "probabilities", "feedbacks", "total_delay"):
        assert seen["s"][name] == seen["twin"][name]


async def test_an_idle_session_expires_and_acting_puts_it_off(make_client, redis_server):
    client = await make_client(open_store(redis_server.url))
    await client.post("/v1/sessions", json=SESSION | {"idle_ttl_seconds": 30.0})
    created = (await client.get(PATH)).json()

    await client.post(f"{PATH}/act")
    assert (await client.get(PATH)).json()["expires_at"] > created["expires_at"]
    keys = redis_server.client.keys("bandit:{s}*")
    for key in keys:
        redis_server.client.pexpire(key, 1)
    wait_until(lambda: not redis_server.client.exists(*keys))
    gone = await client.post(f"{PATH}/act")

    assert (gone.status_code, gone.json()["code"]) == (404, "unknown_session")
    assert redis_server.client.keys("bandit:{*") == []


async def test_a_store_that_is_down_is_told_and_heals_by_itself(make_client, own_redis_server):
    options = StoreOptions(retry_seconds=0.2, reply_seconds=0.5, connect_seconds=0.3)
    # With everysec a server may hold back what it has acknowledged for two seconds, while its disk is slow.
    own_redis_server.client.config_set("appendfsync", "always")
    client = await make_client(open_store(own_redis_server.url, options=options))
    await client.post("/v1/sessions", json=SESSION)
    await client.post(f"{PATH}/act")
    before = (await client.get(PATH)).json()
    registry = client._transport.app.state.runtime.metrics.registry

    def counted(name, call):
        return registry.get_sample_value(name, {"call": call})

    own_redis_server.kill()
    commits = counted("bandit_store_call_seconds_count", "commit")
    for request in (
        client.post(f"{PATH}/act"),
        client.get(PATH),
        client.get("/readyz"),
        client.get("/v1/sessions"),
    ):
        answer = await request
        assert (answer.status_code, answer.json()["code"]) == (503, "store_unavailable")
        assert answer.headers["Retry-After"] == "1"
    assert (await client.get("/livez")).status_code == 200
    assert [counted("bandit_store_failures_total", call) for call in ("commit", "load", "list")] == [1.0] * 3
    assert counted("bandit_store_failures_total", "ping") >= 1
    assert counted("bandit_store_call_seconds_count", "commit") == commits + 1
    own_redis_server.start()
    returned = time.monotonic()
    while (await client.get("/readyz")).status_code != 200:
        assert time.monotonic() < returned + 30

    assert (await client.get(PATH)).json() == before
    assert (await client.post(f"{PATH}/act")).json()["slot"] == 2


SIX = [f"arm {n}" for n in range(6)]


MANY = {"session_id": "s", "learner": {"kind": "dexp3", "arms": SIX}, "seed": 3}


def patch(monkeypatch):
    """Let logs begin with few arms, and end after few events."""
    monkeypatch.setattr(dexp3_log, "LOGGED_ARMS", 4)
    monkeypatch.setattr(dexp3_log, "ARMS_PER_STEP", 1)
    monkeypatch.setattr(dexp3_log, "KEPT_STEPS", 5)


def timeless(answer):
    """An answer without versions and times, which differ from run to run."""
    if isinstance(answer, dict):
        return {name: timeless(value) for name, value in answer.items() if name not in UNSTEADY}
    return [timeless(each) for each in answer] if isinstance(answer, list) else answer


UNSTEADY = ("version", "created_at", "expires_at", "last_act_at", "last_event_at", "effective_arms")


async def used(clients):
    """The answers to a lot of calls, each by one of the clients."""
    chance, answers, waiting = random.Random(1), [], []

    async def call(method, path, **fields):
        answer = await chance.choice(clients).request(method, f"{PATH}{path}", **fields)
        assert answer.status_code < 300, answer.text
        answers.append(timeless(answer.json()))
        return answer.json()

    for n in range(24):
        acted = await call("POST", "/acts", json={"count": chance.choice([1, 1, 3])})
        waiting += [action["arm"] for action in acted["actions"]]
        while len(waiting) > n % 4:
            event = {"arm": waiting.pop(), "loss": chance.random(), "event_id": str(len(answers))}
            await call("POST", "/feedback", json=event)
            assert (await call("POST", "/feedback", json=event))["duplicates"] == 1
        if n % 8 == 7:
            events = [{"arm": arm, "loss": chance.random()} for arm in waiting]
            await call("POST", "/feedbacks", json={"events": events})
            waiting = []
            await call("PATCH", "/arms", json={"add": [f"new {n}"], "remove": [f"arm {n // 8}"]})
        await call("GET", "")
        await call("GET", "/arms")
        answers.append(timeless((await chance.choice(clients).get("/v1/sessions")).json()))
    return answers


async def test_two_processes_answer_as_one_that_stores_all(clients, make_client, store, monkeypatch):
    whole = await make_client(MemoryStore())
    await whole.post("/v1/sessions", json=MANY)
    expected = await used([whole])
    patch(monkeypatch)
    await clients[0].post("/v1/sessions", json=MANY)

    assert await used(clients) == expected
    await clients[1].post(f"{PATH}/act")
    assert any(key.startswith(b"r") for key in await store.read_records("s"))


async def test_two_processes_at_once_lose_nothing_and_a_third_reads_it(clients, make_client, monkeypatch, shared):
    patch(monkeypatch)
    await clients[0].post("/v1/sessions", json=MANY)

    async def visit(number):
        action = (await clients[number % 2].post(f"{PATH}/act")).json()
        event = {"arm": action["arm"], "loss": 0.25, "event_id": str(number)}
        return (await clients[1 - number % 2].post(f"{PATH}/feedback", json=event)).json()["applied"]

    assert sum(await asyncio.gather(*(visit(number) for number in range(30)))) == 30
    third = await make_client(shared())
    views = [(await client.get(PATH)).json() for client in (*clients, third)]

    assert (views[0]["slot"], views[0]["feedbacks"], views[0]["outstanding"]) == (30, 30, 0)
    assert views[0] == views[1] == views[2]


async def test_it_moves_and_goes_on_to_the_bit(make_client, store, monkeypatch):
    patch(monkeypatch)
    here, there = await make_client(store), await make_client(MemoryStore())
    await here.post("/v1/sessions", json=MANY)
    await used([here])
    await moved(here, there)

    assert timeless((await there.get(PATH)).json()) == timeless((await here.get(PATH)).json())
    assert (await there.post(f"{PATH}/act")).json() == (await here.post(f"{PATH}/act")).json()


OPEN = 2000


assert OPEN > 3 * RECORDS_AT_ONCE


@pytest.fixture
async def redis_store(redis_server):
    opened = RedisStore(redis_server.url)
    yield opened
    await opened.close()


async def test_no_call_reads_many_records(redis_store, redis_server):
    """A million take redis-py longer than a call may take, and the server can do nothing else meanwhile."""
    records = {b"%d" % n: b"r%d" % n for n in range(10_001)}
    await redis_store.create(new_session())
    await redis_store.commit(commit("a-0", "a-1", records=records))
    redis_server.client.config_resetstat()

    assert await redis_store.read_records("s") == records

    calls = redis_server.client.info("commandstats")
    assert calls["cmdstat_hscan"]["calls"] >= len(records) // RECORDS_AT_ONCE
    assert "cmdstat_hgetall" not in calls


async def test_what_is_committed_between_two_parts_counts_once(make_client, redis_store, redis_server, monkeypatch):
    other = RedisStore(redis_server.url)
    reader, writer = await make_client(redis_store), await make_client(other)
    body = {"session_id": "s", "learner": {"kind": "exp3", "n_arms": 3, "learning_rate": 0.1}, "seed": 1}
    assert (await writer.post("/v1/sessions", json=body)).status_code == 201
    actions = []
    for _ in range(OPEN // 1000):
        actions += (await writer.post(f"{PATH}/acts", json={"count": 1000})).json()["actions"]
    parts, run = 0, redis_store._run

    async def with_commits_between(script, *args, **options):
        nonlocal parts
        reply = await run(script, *args, **options)
        parts += script is scripts.RECORDS
        if script is scripts.RECORDS and parts == 2:
            assert (await settle(writer, actions[0])).status_code == 200
            assert (await settle(writer, actions[-1])).status_code == 200
            assert (await writer.post(f"{PATH}/act")).json()["slot"] == OPEN + 1
        return reply

    monkeypatch.setattr(redis_store, "_run", with_commits_between)

    assert (await settle(reader, actions[OPEN // 2])).status_code == 200
    assert parts > OPEN // RECORDS_AT_ONCE
    refusals = [await settle(client, actions[0]) for client in (reader, writer)]
    assert [answer.status_code for answer in refusals] == [409, 409]
    assert (await reader.post(f"{PATH}/act")).json()["slot"] == OPEN + 2

    view = (await writer.get(PATH)).json()
    assert (view["slot"], view["feedbacks"], view["outstanding"]) == (OPEN + 2, 3, OPEN - 1)
    await other.close()


async def settle(client, action):
    return await client.post(f"{PATH}/feedback", json={"arm": action["arm"], "slot": action["slot"], "loss": 0.5})


SHARED = {b"bandit:sweeper", b"bandit:schemas"}


ENDED = 500


PATIENT = StoreOptions(pool_wait_seconds=60, reply_seconds=60, retry_seconds=60)
"""So many callers at once may wait long for one of the connections on a busy machine."""


def fields(number, **more):
    return {"session_id": f"s{number}", "learner": {"kind": "exp3", "n_arms": 3, "learning_rate": 0.1}} | more


async def answered(client, method, path, **sent):
    """The answer of a store that is not too busy."""
    while (answer := await client.request(method, path, **sent)).status_code == 503:
        pass
    return answer


async def use_until_gone(client, number):
    """Act and report with ids and keys until the session is unknown, then once more each."""
    path = f"/v1/sessions/s{number}"
    for turn in itertools.count():
        action = await answered(client, "POST", f"{path}/act", headers={"Idempotency-Key": f"act-{turn}"})
        if action.status_code != 200:
            break
        drawn = {name: action.json()[name] for name in ("arm", "slot")}
        event = drawn | {"loss": 0.5, "event_id": f"event-{turn}"}
        answer = await answered(client, "POST", f"{path}/feedback", json=event)
        if answer.status_code != 200:
            break
        if turn > 2:  # let the deadline come
            await until_unknown(client, path)
    for what, body in (("act", {}), ("feedback", {"arm": 0, "slot": 1, "loss": 0.5, "event_id": "late"})):
        late = await answered(client, "POST", f"{path}/{what}", json=body, headers={"Idempotency-Key": "late"})
        assert (late.status_code, late.json()["code"]) == (404, "unknown_session")


async def until_unknown(client, path):
    while (await answered(client, "GET", path)).status_code == 200:
        pass


def left(redis_server):
    """Keys of sessions, and reminders of them."""
    return [key for key in redis_server.client.scan_iter() if key not in SHARED]


@pytest.mark.parametrize("extra", [{}, {"expiry": {"after_seconds": 3600, "default_loss": 1.0}}])
@pytest.mark.slow
async def test_deleting_under_load_leaves_nothing(make_client, redis_server, extra):
    clients = [await make_client(open_store(redis_server.url)) for _ in range(2)]
    for number in range(20):
        assert (await clients[0].post("/v1/sessions", json=fields(number, **extra))).status_code == 201
    using = [asyncio.create_task(use_until_gone(clients[n % 2], n // 2)) for n in range(40)]
    for number in range(20):
        assert (await clients[1].delete(f"/v1/sessions/s{number}")).status_code == 204
    await asyncio.gather(*using)

    assert left(redis_server) == []


@pytest.mark.slow
async def test_sessions_that_expire_while_they_are_used_leave_nothing(make_client, redis_server):
    client = await make_client(open_store(redis_server.url, options=PATIENT))
    for number in range(ENDED):
        assert (await client.post("/v1/sessions", json=fields(number, idle_ttl_seconds=1.0))).status_code == 201
    await asyncio.gather(*(use_until_gone(client, number) for number in range(ENDED)))

    wait_until(lambda: left(redis_server) == [])


async def test_whatever_order_two_processes_report_in_the_best_of_an_id_counts(clients):
    """Twice each, at once; then everything is exported, and goes on."""
    rewards = {"reward_range": [0, 1], "updates": {"within_seconds": 10**6}, "goals": {"low": 0.25, "high": 0.5}}
    await clients[0].post("/v1/sessions", json=SESSION | rewards | {"learner": {"kind": "fixed", "n_arms": 4}})
    actions = (await clients[0].post(f"{PATH}/acts", json={"count": 30})).json()["actions"]
    drawn = random.Random(5)
    kinds = [{"reward": 0.125}, {"goal": "low"}, {"goal": "high"}, {"reward": 1}]
    outcomes = [drawn.choices(kinds, k=3) for _ in actions]
    sent = [
        (drawn.choice(clients), {"arm": action["arm"], "event_id": str(n)} | outcome)
        for n, action in enumerate(actions)
        for outcome in outcomes[n] * 2
    ]
    drawn.shuffle(sent)

    answers = await asyncio.gather(*(client.post(f"{PATH}/feedback", json=event) for client, event in sent))

    counts = [answer.json() for answer in answers]
    assert sum(each["applied"] for each in counts) == 30
    goals = {"low": 0.25, "high": 0.5}
    best = [max(each.get("reward", goals.get(each.get("goal"))) for each in some) for some in outcomes]
    for client in clients:
        view = (await client.get(PATH)).json()
        assert (view["feedbacks"], view["outstanding"]) == (30, 0)
        assert view["mean_reward"] == pytest.approx(sum(best) / 30)
        rows = (await client.get(f"{PATH}/arms")).json()["arms"]
        assert sum(row["feedbacks"] * (row["mean_reward"] or 0) for row in rows) == pytest.approx(sum(best))
    document = (await clients[0].get(f"{PATH}/export")).json()
    await clients[0].delete(PATH)
    assert (await clients[1].post("/v1/sessions/import", json=document)).status_code == 201
    events = [{"arm": action["arm"], "event_id": str(n), "reward": 0.75} for n, action in enumerate(actions)]
    again = (await clients[0].post(f"{PATH}/feedbacks", json={"events": events})).json()
    assert again["updated"] == sum(reward < 0.75 for reward in best)
    assert again["duplicates"] == sum(reward >= 0.75 for reward in best)


@pytest.mark.parametrize("updates", [None, {"within_seconds": 10**6}])
async def test_commits_go_the_short_way_but_for_updates(make_client, redis_server, updates):
    """An id without updates has no value; with them, its bucket lives as long as it may be improved."""
    plain = []
    client = await make_client(RedisStore(redis_server.url, StoreOptions(on_plain_commit=lambda: plain.append(1))))
    body = SESSION | {"learner": {"kind": "multiscale_tsallis", "n_arms": 4}, "updates": updates}
    await client.post("/v1/sessions", json=body)
    arms = [(await client.post(f"{PATH}/act")).json()["arm"] for _ in range(5)]
    for n, arm in enumerate(arms):
        event = {"arm": arm, "loss": 0.5, "event_id": str(n)}
        assert (await client.post(f"{PATH}/feedback", json=event)).json()["applied"] == 1

    # The first commit of a worker, and the first id, which begins a bucket, take the long way.
    assert len(plain) == 8
    (bucket,) = redis_server.client.keys("*:seen:*")
    assert {len(value) for value in redis_server.client.hvals(bucket)} == {0 if updates is None else 33}
    lasts = redis_server.client.ttl(bucket)
    assert lasts > 1.2 * 10**6 if updates else lasts < 1.6 * 86_400
    again = (await client.post(f"{PATH}/feedback", json={"arm": arms[0], "loss": 0.25, "event_id": "0"})).json()
    assert again.get("updated", 0) == (updates is not None)
    assert len(plain) == 8
    assert len(redis_server.client.keys("*:seen:*")) == 1
