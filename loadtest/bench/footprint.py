"""What the service takes beside processor time: bytes of log and memory, and the time until it is ready."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import httpx

from loadtest.bench.load import act_and_feedback, run_clients
from loadtest.bench.measured import cpu_seconds, spread
from loadtest.bench.targets import SESSIONS
from loadtest.processes import RedisProcess, ServiceProcess, running_redis, running_service

IDLE_ARMS = 100
"""Arms of the sessions whose memory is measured."""
LOGGED_ARMS = (10, 1_000, 10_000)
"""Arms of the sessions whose log is measured."""
PAIRS = 200
"""Acts, each with an event, of the session whose memory in Redis is measured."""
IMPORT = "import time; began = time.perf_counter(); import service.app; print(time.perf_counter() - began)"
_KEYS = ("", ":slots", ":counts", ":log", ":segments", ":played")
_RESIDENT = re.compile(r"VmRSS:\s+(\d+) kB")


class Stores(NamedTuple):
    """A Redis, a service with one worker that keeps sessions there, and a client of it."""

    redis: RedisProcess
    service: ServiceProcess
    client: httpx.Client

    def create(self, name: str, n_arms: int) -> str:
        """Return the path of a new session."""
        body = {"session_id": name, "learner": {"kind": "dexp3", "n_arms": n_arms}, "seed": 1}
        self.client.post(SESSIONS, json=body).raise_for_status()
        return f"{SESSIONS}/{name}"

    def use(self, path: str, pairs: int) -> None:
        """Act, and send an event for each act."""
        for number in range(pairs):
            arm = self.client.post(f"{path}/act").raise_for_status().json()["arm"]
            event = {"arm": arm, "loss": number % 7 / 7}
            self.client.post(f"{path}/feedback", json=event).raise_for_status()

    def written(self) -> tuple[int, int]:
        """Return the bytes of Redis's log, and how many scripts it has run."""
        scripts = self.redis.information("commandstats").get("cmdstat_evalsha", "calls=0,")
        size = int(self.redis.information("persistence")["aof_current_size"])
        return size, int(scripts.partition("=")[2].partition(",")[0])

    def resident(self) -> int:
        """Return the bytes of the worker's memory (Linux)."""
        (worker,) = self.service.workers()
        found = _RESIDENT.search(Path(f"/proc/{worker}/status").read_text())
        return 1024 * int(found[1]) if found is not None else 0


@contextmanager
def running_stores() -> Iterator[Stores]:
    """Start Redis and the service, and end them in any case."""
    with TemporaryDirectory() as folder, running_redis(Path(folder), Path(folder)) as redis:
        url = f"redis://127.0.0.1:{redis.port}/0"
        with (
            running_service(Path(folder), "--workers", "1", "--store-url", url) as service,
            httpx.Client(base_url=service.url, timeout=30) as client,
        ):
            yield Stores(redis, service, client)


def stored_bytes(
    clients: int, seconds: float, sessions: int, n_arms: Sequence[int] = LOGGED_ARMS
) -> dict[str, Any]:
    """Measure what Redis logs for a request, and what an idle session takes in memory.

    Parameters
    ----------
    clients : connections that share a session whose log is measured
    seconds : time for each number of arms
    sessions : idle sessions, by which the memory of a worker is measured

    Returns
    -------
    By number of arms ``log_bytes`` of a request, and ``requests_per_commit``; ``idle_memory``, bytes of a session
    in ``redis`` (of its keys, without those of remembered event ids) and in a ``worker``.
    """
    with running_stores() as stores:
        memory = _idle_memory(stores, sessions)
        logs = {str(each): _logged(stores, each, clients, seconds) for each in n_arms}
    return {
        "log_bytes": {name: size for name, (size, _) in logs.items()},
        "requests_per_commit": {name: requests for name, (_, requests) in logs.items()},
        "idle_memory": memory,
    }


def _logged(stores: Stores, n_arms: int, clients: int, seconds: float) -> tuple[float, float]:
    """Return the bytes of log for a request, and the requests in a commit, of clients in one session."""
    path = stores.create(f"log-{n_arms}", n_arms)
    before = stores.written()
    talk = (f"{path}/act", f"{path}/feedback")
    rate = run_clients(stores.service.port, lambda: act_and_feedback(*talk), clients, seconds)
    size, commits = (now - then for now, then in zip(stores.written(), before, strict=True))
    return size / rate.requests, rate.requests / commits


def _idle_memory(stores: Stores, sessions: int) -> dict[str, float]:
    """Return the memory of an idle session; the worker's is a mean over ``sessions``, decoded or not."""
    stores.use(stores.create("idle", IDLE_ARMS), PAIRS)
    before = stores.resident()
    for path in [stores.create(f"idle-{number}", IDLE_ARMS) for number in range(sessions)]:
        stores.use(path, 2)
    after = stores.resident()
    replies = [stores.redis.command(f"MEMORY USAGE bandit:{{idle}}{suffix} SAMPLES 0") for suffix in _KEYS]
    in_redis = sum(int(reply[1:]) for reply in replies if reply.startswith(b":"))
    return {"redis": in_redis, "worker": (after - before) / sessions}


def start_times(repetitions: int) -> dict[str, Any]:
    """Measure import and start so many times, in turn.

    Returns
    -------
    Spreads in seconds: ``import_seconds`` of the application in a new process; ``ready_seconds`` from the start of
    a service, whose Redis runs already, until ``GET /readyz`` answers 200; and ``ready_cpu_seconds``, the processor
    time of its supervisor and worker until then.
    """
    imported, ready, used = [], [], []
    command = [sys.executable, "-c", IMPORT]
    with TemporaryDirectory() as folder, running_redis(Path(folder), Path(folder)) as redis:
        for _ in range(repetitions):
            run = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603 - Python
            imported.append(float(run.stdout))
            started = time.perf_counter()
            flags = ("--workers", "1", "--store-url", f"redis://127.0.0.1:{redis.port}/0")
            with running_service(Path(folder), *flags) as service:
                ready.append(time.perf_counter() - started)
                used.append(cpu_seconds([service.pid, *service.workers()]))
    return {"import_seconds": spread(imported), "ready_seconds": spread(ready), "ready_cpu_seconds": spread(used)}
