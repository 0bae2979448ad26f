"""A rolling upgrade to a version with another schema, and the way back, under load: nothing is lost or refused."""

import random
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

import httpx
import pytest

from tests.support.http import http_client
from tests.support.programs import WHEEL
from tests.support.running import RunningService
from tests.support.two_builds import QUICK, SECOND, build
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.processes, pytest.mark.parametrize("server_program", [WHEEL], indirect=True)]

SESSIONS = {
    "dexp3": {"learner": {"kind": "dexp3", "n_arms": 12}},
    "exp3": {"learner": {"kind": "exp3", "n_arms": 3, "learning_rate": 0.1}},
    "window": {
        "learner": {"kind": "centred_tsallis", "arms": ["a", "b"]},
        "expiry": {"after_seconds": 3600, "default_loss": None},
    },
}
FIELD = "most_outstanding"
WRITTEN = "sessions are written in schema %d from now on"


class Load:
    """Acts and reports until it is over, by any of the services that are up; counts what was acknowledged."""

    def __init__(self):
        self.clients, self.acknowledged, self.refused = [], dict.fromkeys(SESSIONS, 0), []
        self.over = threading.Event()

    def run(self, session):
        chance, number = random.Random(session), 0
        while not self.over.is_set():
            number += 1
            act = self._post(chance, f"/v1/sessions/{session}/act", {"Idempotency-Key": f"a{number}"})
            event = {"arm": act["arm"], "loss": 0.25, "event_id": f"e{number}"}
            slot = {"slot": act["slot"]} if session == "exp3" else {}
            told = self._post(chance, f"/v1/sessions/{session}/feedback", {}, event | slot)
            assert told["applied"] + told["duplicates"] == 1
            self.acknowledged[session] += 1

    def _post(self, chance, path, headers, body=None):
        """Until one of the services answers with a success."""
        while True:
            try:
                answer = chance.choice(self.clients).post(path, json=body, headers=headers)
            except httpx.TransportError:  # It was stopped.
                continue
            if answer.is_success:
                return answer.json()
            assert answer.status_code == 503, answer.text
            assert int(answer.headers["Retry-After"]) > 0
            self.refused.append(answer.json()["code"])

    @contextmanager
    def running(self):
        with ThreadPoolExecutor() as pool:
            runs = [pool.submit(self.run, session) for session in SESSIONS]
            try:
                yield
            finally:
                self.over.set()
            for each in runs:
                each.result()


@pytest.fixture
def start(tmp_path, own_redis_server):
    """Start a service of a build on the one store; leave its ``with`` block to stop it."""
    builds = {name: build(tmp_path / name, patches) for name, patches in (("first", QUICK), ("second", SECOND))}

    @contextmanager
    def started(name, number, load):
        folder = tmp_path / f"service {number}"
        folder.mkdir()
        flags = ("--workers", "1", "--store-url", own_redis_server.url)
        with RunningService(folder, *flags, cwd=builds[name]) as service, service.client():
            client = opened.enter_context(http_client(service.url))  # Threads may use it until the test ends.
            load.clients.append(client)
            yield client, service
            load.clients.remove(client)

    with ExitStack() as opened:
        yield started


def test_an_upgrade_and_the_way_back_lose_nothing(start, own_redis_server):
    def stored():
        return {own_redis_server.client.hget(f"bandit:{{{session}}}", "state")[0] for session in SESSIONS}

    def views(client):
        return {session: client.get(f"/v1/sessions/{session}").json() for session in SESSIONS}

    load = Load()
    with ExitStack() as first, ExitStack() as second:
        client, _ = first.enter_context(start("first", 0, load))
        first.enter_context(start("first", 1, load))
        for session, fields in SESSIONS.items():
            assert client.post("/v1/sessions", json={"session_id": session, "seed": 1, **fields}).status_code == 201
        client.post("/v1/sessions", json={"session_id": "idle", "learner": {"kind": "dexp3", "n_arms": 2}})
        with load.running():
            newer, one = second.enter_context(start("second", 2, load))
            assert (stored(), {view[FIELD] for view in views(newer).values()}) == ({1}, {0})
            _, other = second.enter_context(start("second", 3, load))
            assert stored() == {1}
            first.close()
            wait_until(lambda: stored() == {2})
            wait_until(lambda: {view[FIELD] for view in views(newer).values()} == {1})
            assert load.refused == []
            newer.post("/v1/sessions/idle/act")

            back, _ = first.enter_context(start("first", 4, load))
            for each in (one, other):
                wait_until(lambda each=each: each.messages().count(WRITTEN % 1) == 1)
            wait_until(lambda: stored() == {1})
            assert {view[FIELD] for view in views(newer).values()} == {0}
            idle = back.get("/v1/sessions/idle")
            told = (idle.status_code, idle.json()["code"], idle.headers["Retry-After"])
            assert told == (503, "newer_schema", "1")
            newer.patch("/v1/sessions/idle", json={"idle_ttl_seconds": None})
            assert back.get("/v1/sessions/idle").json()["slot"] == 1
            refused = len(load.refused)
            first.enter_context(start("first", 5, load))
            second.close()
            counted = dict(load.acknowledged)
            wait_until(lambda: all(load.acknowledged[session] > counted[session] for session in SESSIONS))
        shown = views(back)

    assert {session: view["feedbacks"] for session, view in shown.items()} == load.acknowledged
    assert all(view["slot"] == view["feedbacks"] for view in shown.values())
    assert stored() == {1}
    assert set(load.refused) <= {"newer_schema"}
    assert len(load.refused) == refused
