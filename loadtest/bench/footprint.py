"""What the service takes beside its rates: bytes, time to be ready, and the time of calls in large sessions."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import httpx
from redis import Redis

from loadtest.bench.load import Conversation, act_and_feedback, request, run_clients, sent
from loadtest.bench.measured import cpu_seconds, ratios, spread
from loadtest.bench.throughput import CREATE_SECONDS, SESSIONS, TSALLIS
from loadtest.errors import ServiceError
from loadtest.processes import RedisProcess, ServiceProcess, running_redis, running_service

DEXP3: Mapping[str, Any] = {"kind": "dexp3", "n_arms": 100}
"""Of sessions whose memory is measured; others have more or fewer arms."""
LOGGED_ARMS = (10, 1_000, 10_000)
"""Arms of the sessions whose log is measured."""
REPORTED = 1000
"""Acts, each with an event, of the session whose memory in Redis is measured: they are of all its arms."""
SEGMENTS = (2_500, 10_000)
"""Segments of sessions whose segments are listed."""
SEGMENTS_PAGE = 100
ANSWER_SECONDS = 120.0
IMPORT = "import time; began = time.perf_counter(); import service.app; print(time.perf_counter() - began)"
_RESIDENT = re.compile(r"VmRSS:\s+(\d+) kB")


class Stores(NamedTuple):
    """A Redis, a service with one worker that keeps sessions there, and a client of it."""

    redis: RedisProcess
    service: ServiceProcess
    client: httpx.Client

    def create(self, name: str, learner: Mapping[str, Any], **fields: Any) -> str:
        """Return the path of a new session."""
        body = {"session_id": name, "learner": learner, "seed": 1, **fields}
        self.client.post(SESSIONS, json=body).raise_for_status()
        return f"{SESSIONS}/{name}"

    def talk(self, converse: Callable[[], Conversation], clients: int) -> None:
        """Run clients until the requests that they share are answered."""
        run_clients(self.service.port, converse, clients, CREATE_SECONDS)

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
            httpx.Client(base_url=service.url, timeout=ANSWER_SECONDS) as client,
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
    in ``redis`` (of its keys, without those of remembered event ids; all arms are reported) and in a ``worker``.
    """
    with running_stores() as stores:
        memory = _idle_memory(stores, sessions, clients)
        logs = {str(each): _logged(stores, each, clients, seconds) for each in n_arms}
    sizes, batches = ({name: log[place] for name, log in logs.items()} for place in (0, 1))
    return {"log_bytes": sizes, "requests_per_commit": batches, "idle_memory": memory}


def _logged(stores: Stores, n_arms: int, clients: int, seconds: float) -> tuple[float, float]:
    """Return the bytes of log for a request, and the requests in a commit, of clients in one session."""
    path = stores.create(f"log-{n_arms}", {**DEXP3, "n_arms": n_arms})
    before = stores.written()
    talk = (f"{path}/act", f"{path}/feedback")
    rate = run_clients(stores.service.port, lambda: act_and_feedback(*talk), clients, seconds)
    size, commits = (now - then for now, then in zip(stores.written(), before, strict=True))
    return size / rate.requests, rate.requests / commits


def _idle_memory(stores: Stores, sessions: int, clients: int) -> dict[str, float]:
    """Return the memory of an idle session; the worker's is a mean over ``sessions``, decoded or not."""
    stores.talk(partial(reported, iter([stores.create("idle", DEXP3)] * 10), REPORTED // 10), 1)
    before = stores.resident()
    bodies = [{"session_id": f"idle-{number}", "learner": DEXP3, "seed": number} for number in range(sessions)]
    new = [request("POST", SESSIONS, json.dumps(body).encode()) for body in bodies]
    stores.talk(partial(sent, iter(new)), clients)
    stores.talk(partial(reported, iter([f"{SESSIONS}/{body['session_id']}" for body in bodies]), 2), clients)
    after = stores.resident()
    with Redis(port=stores.redis.port) as client:
        keys = [key for key in client.scan_iter("bandit:{idle}*") if b":seen:" not in key]
        in_redis = sum(client.memory_usage(key, samples=0) or 0 for key in keys)
    return {"redis": in_redis, "worker": (after - before) / sessions}


def event_of(action: Mapping[str, Any], *, by_slot: bool, with_id: bool = True) -> dict[str, Any]:
    """Return the event that answers an action."""
    event = {"arm": action["arm"], "loss": action["slot"] % 7 / 7}
    event |= {"slot": action["slot"]} if by_slot else {}
    return event | ({"event_id": uuid.uuid4().hex} if with_id else {})


def reported(paths: Iterator[str], count: int, *, by_slot: bool = False) -> Conversation:
    """Act so often in each of these sessions, and report each decision without an id."""
    for path in paths:
        answer = yield request("POST", f"{path}/acts", b'{"count": %d}' % count)
        events = [event_of(each, by_slot=by_slot, with_id=False) for each in json.loads(answer)["actions"]]
        yield request("POST", f"{path}/feedbacks", json.dumps({"events": events}).encode())


LEAST_SECONDS = 0.2
"""Processor time that is measured at least: the system counts it in hundredths of a second."""


def listed_segments(clients: int, repetitions: int, sizes: Sequence[int] = SEGMENTS) -> dict[str, Any]:
    """Read all pages of the segments of sessions that have so many.

    Returns
    -------
    Milliseconds of processor time of worker and Redis by number of segments, and the ``ratio`` of the most to the
    fewest in each repetition.
    """
    used: dict[str, list[float]] = {str(size): [] for size in sizes}
    with running_stores() as stores:
        pids = [*stores.service.workers(), stores.redis.pid]
        for size in sizes:
            path = stores.create(f"s{size}", TSALLIS | {"n_arms": 10}, segments={"max": size})
            acts = iter([request("POST", f"{path}/act", b'{"segment": "%06d"}' % each) for each in range(size)])
            stores.talk(partial(sent, acts), clients)
        for size in [*sizes] * repetitions:
            before, spent, times = cpu_seconds(pids), 0.0, 0
            while spent < LEAST_SECONDS:
                if (found := _listed(stores.client, f"{SESSIONS}/s{size}/segments")) != size:
                    raise ServiceError(f"{found} of {size} segments are listed")
                spent, times = cpu_seconds(pids) - before, times + 1
            used[str(size)].append(1000 * spent / times)
    fewest, most = (pick(used, key=int) for pick in (min, max))
    return {
        "milliseconds": {size: spread(each) for size, each in used.items()},
        "ratio": ratios(used, most, fewest),
    }


def _listed(client: httpx.Client, path: str) -> int:
    """Read all pages of the segments of a session, and return how many they are."""
    found, cursor = 0, ""
    while cursor is not None:
        asked = {"limit": SEGMENTS_PAGE} | ({"cursor": cursor} if cursor else {})
        page = client.get(path, params=asked).raise_for_status().json()
        found, cursor = found + len(page["segments"]), page["next_cursor"]
    return found


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
