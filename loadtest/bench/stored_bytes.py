"""What sessions cost in bytes: in the log of Redis for each request, and in memory while nobody uses them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import httpx

from loadtest.bench.closed_loop import act_and_feedback, run_clients
from loadtest.processes import RedisProcess, ServiceProcess, running_redis, running_service

SESSIONS = "/v1/sessions"
IDLE_ARMS = 100
"""Arms of the sessions whose memory is measured."""
LOGGED_ARMS = (10, 1_000, 10_000)
"""Arms of the sessions whose log is measured."""
IDLE_SESSIONS = 5_000
"""Idle sessions by which the memory of a worker is measured: five times as many as it keeps decoded."""
PAIRS = 200
"""Acts, each with an event, of the session whose memory in Redis is measured."""
_KEYS = ("", ":slots", ":counts", ":log", ":segments", ":played")
_RESIDENT = re.compile(r"VmRSS:\s+(\d+) kB")


class Memory(NamedTuple):
    """Bytes of an idle session."""

    redis: int
    """Of its keys, without those of remembered event ids."""
    worker: float
    """By the resident memory of a worker before and after it created and used many sessions (Linux)."""


class Logged(NamedTuple):
    """What Redis logs."""

    bytes: float
    """Of a request, act or event."""
    requests: float
    """In one commit."""


class Stores(NamedTuple):
    """A Redis, a service with one worker that keeps sessions there, and a client of it."""

    redis: RedisProcess
    service: ServiceProcess
    client: httpx.Client

    def create(self, name: str, kind: str, n_arms: int) -> str:
        """Return the path of a new session."""
        body = {"session_id": name, "learner": {"kind": kind, "n_arms": n_arms}, "seed": 1}
        self.client.post(SESSIONS, json=body).raise_for_status()
        return f"{SESSIONS}/{name}"

    def written(self) -> tuple[int, int]:
        """Return the bytes of Redis's log, and how many scripts it has run."""
        scripts = self.redis.information("commandstats").get("cmdstat_evalsha", "calls=0,")
        size = int(self.redis.information("persistence")["aof_current_size"])
        return size, int(scripts.partition("=")[2].partition(",")[0])

    def use(self, path: str, pairs: int) -> None:
        """Act, and send an event for each act."""
        for number in range(pairs):
            arm = self.client.post(f"{path}/act").raise_for_status().json()["arm"]
            event = {"arm": arm, "loss": number % 7 / 7}
            self.client.post(f"{path}/feedback", json=event).raise_for_status()


def stored_bytes(
    clients: int,
    seconds: float,
    sessions: int,
    kind: str = "dexp3",
    n_arms: Sequence[int] = LOGGED_ARMS,
) -> dict[str, Any]:
    """Measure all.

    Parameters
    ----------
    clients : connections that share a session whose log is measured
    seconds : time for each number of arms
    sessions : idle sessions in a worker
    kind : learner over arms
    n_arms : numbers of arms of the sessions whose log is measured

    Returns
    -------
    By number of arms ``log_bytes`` of a request, and ``requests_per_commit``; ``idle_memory``, bytes of a session
    in ``redis`` and in a ``worker``.

    Raises
    ------
    LoadTestError
        where the service or Redis does not start.
    """
    with running_stores() as stores:
        memory = idle_memory(stores, kind, sessions)
        logs = {str(each): logged(stores, kind, each, clients, seconds) for each in n_arms}
    return {
        "log_bytes": {name: log.bytes for name, log in logs.items()},
        "requests_per_commit": {name: log.requests for name, log in logs.items()},
        "idle_memory": memory._asdict(),
    }


@contextmanager
def running_stores() -> Iterator[Stores]:
    """Start both, and end them in any case."""
    with TemporaryDirectory() as folder, running_redis(Path(folder), Path(folder)) as redis:
        url = f"redis://127.0.0.1:{redis.port}/0"
        with (
            running_service(Path(folder), "--workers", "1", "--store-url", url) as service,
            httpx.Client(base_url=service.url, timeout=30) as client,
        ):
            yield Stores(redis, service, client)


def logged(stores: Stores, kind: str, n_arms: int, clients: int, seconds: float) -> Logged:
    """Measure the log of Redis while clients act and report in one session.

    Parameters
    ----------
    stores : what runs
    kind : learner over arms
    n_arms : arms of the session
    clients : connections that share it
    seconds : for which they call
    """
    path = stores.create(f"log-{kind}-{n_arms}-{clients}", kind, n_arms)
    before = stores.written()
    talk = (f"{path}/act", f"{path}/feedback")
    rate = run_clients(stores.service.port, lambda: act_and_feedback(*talk), clients, seconds)
    size, commits = (now - then for now, then in zip(stores.written(), before, strict=True))
    return Logged(size / rate.requests, rate.requests / commits)


def idle_memory(stores: Stores, kind: str, sessions: int) -> Memory:
    """Return the memory of an idle session; the worker's is a mean over ``sessions``, decoded or not."""
    stores.use(stores.create("idle", kind, IDLE_ARMS), PAIRS)
    (worker,) = stores.service.workers()
    before = _resident(worker)
    for path in [stores.create(f"idle-{number}", kind, IDLE_ARMS) for number in range(sessions)]:
        stores.use(path, 2)
    after = _resident(worker)
    return Memory(_in_redis(stores.redis, "idle", _KEYS), (after - before) / sessions)


def _in_redis(redis: RedisProcess, name: str, suffixes: Sequence[str]) -> int:
    replies = [redis.command(f"MEMORY USAGE bandit:{{{name}}}{suffix} SAMPLES 0") for suffix in suffixes]
    return sum(int(reply[1:]) for reply in replies if reply.startswith(b":"))


def _resident(pid: int) -> int:
    found = _RESIDENT.search(Path(f"/proc/{pid}/status").read_text())
    return 1024 * int(found[1]) if found is not None else 0
