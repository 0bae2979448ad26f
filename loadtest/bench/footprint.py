"""What the service takes beside its rates: bytes, time to be ready, and the time of calls in large sessions."""

from __future__ import annotations

import http.client
import json
import re
import subprocess
import sys
import tempfile
import time
import timeit
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import httpx
import numpy as np

from loadtest.bench.floors import REDIS
from loadtest.bench.load import act_and_feedback, run_clients
from loadtest.bench.measured import cpu_seconds, running_uvicorn, spread
from loadtest.bench.throughput import EVENT, SESSIONS
from loadtest.errors import ServiceError
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
    sizes, batches = ({name: log[place] for name, log in logs.items()} for place in (0, 1))
    return {"log_bytes": sizes, "requests_per_commit": batches, "idle_memory": memory}


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


CALL = 1000
"""Acts of one call while decisions gather."""
ANSWER_SECONDS = 120.0
PASSES = 100
"""Calls of a floor, and of numpy, whose median is compared."""
DEXP3 = {"kind": "dexp3", "n_arms": 100}
EXP3 = {"kind": "exp3", "n_arms": 100, "learning_rate": 0.01, "max_open_slots": 1_000_000}


class Sizes(NamedTuple):
    """The largest sizes, and how they are measured."""

    arms: int = 100_000
    outstanding: int = 1_000_000
    repetitions: int = 3
    calls: int = 10
    """Calls whose median is the time of one repetition."""

    def sessions(self) -> Iterator[tuple[str, str, int, Mapping[str, Any]]]:
        """Yield what grows, which kind of session, its size and its fields.

        Outstanding decisions are remembered as times of acts, counted in buckets, or as a record of each slot.
        """
        for size in sizes_to(self.arms, 10):
            yield "arms", "", size, {"learner": DEXP3 | {"n_arms": size}}
        kinds: dict[str, Mapping[str, Any]] = {
            " (expiry)": {"learner": DEXP3, "expiry": {"after_seconds": 86_400}},
            " (open slots)": {"learner": EXP3},
        }
        for kind, fields in kinds.items():
            for size in sizes_to(self.outstanding, 10_000):
                yield "outstanding decisions", kind, size, fields


def sizes_to(most: int, first: int) -> list[int]:
    """Return the sizes from ``first`` on, each ten times the one before, with ``most`` as the last one."""
    sizes = []
    while first < most:
        sizes.append(first)
        first *= 10
    return [*sizes, most]


def call_all(port: int, path: str, bodies: Sequence[bytes]) -> list[tuple[Any, float]]:
    """Post one body after the other on a new connection; return the answers, and the milliseconds that each took.

    Raises
    ------
    ServiceError
        for an answer that is no success.
    """
    found = []
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=ANSWER_SECONDS)) as connection:
        connection.connect()
        for body in bodies:
            started = time.perf_counter()
            connection.request("POST", path, body, {"Content-Type": "application/json"} if body else {})
            answer = connection.getresponse()
            content = answer.read()
            taken = 1000 * (time.perf_counter() - started)
            if answer.status not in (http.client.OK, http.client.CREATED):
                raise ServiceError(f"POST {path}: status {answer.status}: {content[:200].decode(errors='replace')}")
            found.append((json.loads(content), taken))
    return found


def grown_times(sizes: Sizes, logs: Path, advance: Callable[[], object]) -> dict[str, Any]:
    """Return the rows, and what the times at the most arms are compared with.

    All sizes of a row are measured in turn, so that other load on the machine affects all of them.
    """
    with (
        tempfile.TemporaryDirectory(prefix="growth-") as data,
        running_redis(Path(data), logs) as redis,
        running_uvicorn("floors", {REDIS: (url := f"redis://127.0.0.1:{redis.port}")}, logs, 1, "/read") as floors,
        running_service(logs, "--workers", "1", "--store-url", url) as service,
    ):
        floor = median(taken for _, taken in call_all(floors.port, "/nothing", [EVENT] * PASSES))
        weights = np.random.default_rng(1).random(sizes.arms)
        one_pass = 1000 * median(timeit.repeat(lambda: np.cumsum(weights), number=1, repeat=PASSES))
        # What is made and not measured need not wait for the disk.
        redis.command("CONFIG SET appendfsync no")
        kinds: dict[tuple[str, str], list[tuple[int, str]]] = {}
        for number, (grows, kind, size, fields) in enumerate(sizes.sessions()):
            path, acts = f"{SESSIONS}/session-{number}", size if grows != "arms" else 1
            body = json.dumps({"session_id": f"session-{number}", "seed": 1, **fields}).encode()
            call_all(service.port, SESSIONS, [body])
            bodies = [b'{"count": %d}' % min(CALL, acts - done) for done in range(0, acts, CALL)]
            call_all(service.port, f"{path}/acts", bodies)
            kinds.setdefault((grows, kind), []).append((size, path))
            advance()
        redis.command("CONFIG SET appendfsync always")
        rows = []
        for (grows, kind), made in kinds.items():
            found: dict[str, dict[int, list[float]]] = {
                name: defaultdict(list) for name in ("one act", "one event")
            }
            for size, path in made * sizes.repetitions:
                acted = call_all(service.port, f"{path}/act", [b""] * sizes.calls)
                named = ("arm", "slot") if "slots" in kind else ("arm",)
                events = [{name: action[name] for name in named} | {"loss": 0.5} for action, _ in acted]
                settled = call_all(
                    service.port, f"{path}/feedback", [json.dumps(event).encode() for event in events]
                )
                for name, answers in zip(found, (acted, settled), strict=True):
                    found[name][size].append(median(taken for _, taken in answers))
            for name, times in found.items():
                steps = [{"size": size, "values": values} for size, values in times.items()]
                rows.append({"name": f"{name}{kind}", "grows": grows, "steps": steps})
    compared = {"floor_ms": floor, "pass_ms": one_pass}
    return {"rows": rows, "compared": compared, "options": sizes._asdict()}
