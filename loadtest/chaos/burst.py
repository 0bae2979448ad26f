"""Very many decisions expire at the same time: latency of another session, and whether each is settled once."""

from __future__ import annotations

import os
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from loadtest.chaos.load import connection
from loadtest.chaos.other_session import ANSWER_SECONDS, OtherSession
from loadtest.client import Client
from loadtest.processes import RedisProcess, ServiceProcess, running_redis, running_service, wait_until

N_ARMS = 100
CALL = 1000
"""Acts in one call."""
CLICKS = 1000
"""Decisions answered before the silence."""
CALLERS = 4
"""Clients that act on the session at the moment its decisions are settled."""
SWEEPER = "bandit:sweeper"
"""The lease of the expiry sweeper; the study holds it, so that no worker settles decisions before the burst."""
HELD_MS = 24 * 3600 * 1000
KILL_AFTER = (0.02, 0.05, 0.1, 0.2)
"""Seconds into the burst, in turn."""


@dataclass
class Burst:
    """What one burst came to; times in seconds, latencies in milliseconds."""

    acts: int
    killed: bool
    opening: float = 0.0
    bytes_stored: int = 0
    """Of the session, when all its decisions are outstanding."""
    settling: float = 0.0
    quiet_p99: float = 0.0
    burst_p99: float = 0.0
    burst_longest: float = 0.0
    requests: int = 0
    """Requests of the other session that met the burst."""
    counts: dict[str, int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    @property
    def ratio(self) -> float:
        """The other session's p99 in the burst over that before it."""
        return self.burst_p99 / self.quiet_p99 if self.quiet_p99 else 0.0

    def summary(self) -> dict[str, Any]:
        """All of it by name."""
        return asdict(self) | {"ratio": self.ratio}


class Study:
    """A Redis and a service of two workers, and bursts there.

    Parameters
    ----------
    redis, service : running
    window : seconds after which a decision expires; opening all of them must take less
    """

    def __init__(self, redis: RedisProcess, service: ServiceProcess, window: float) -> None:
        self._redis, self._service, self._window = redis, service, window
        self._rounds = 0

    def burst(self, acts: int, quiet_seconds: float, *, kill: bool) -> Burst:
        """Open ``acts`` decisions, wait for the window to end, let them be settled, and count."""
        found = Burst(acts, kill)
        self._rounds += 1
        night, other = f"night-{self._rounds}", f"other-{self._rounds}"
        with connection(self._service.url, timeout=ANSWER_SECONDS) as client:
            self._hold()
            expiry = {"after_seconds": self._window, "default_loss": 0}
            _create(client, night, loss_range=[1, 0], expiry=expiry)
            _create(client, other)
            found.opening = self._open(client, night, acts)
            found.bytes_stored = sum(map(self._bytes, (f"bandit:{{{night}}}", f"bandit:{{{night}}}:slots")))
            opened = time.monotonic()
            others = OtherSession(self._service.url, f"/v1/sessions/{other}")
            due_after = self._window * (1 + 2 / 64)
            wait_until(lambda: time.monotonic() > opened + due_after - quiet_seconds, "silence", 2 * self._window)
            with others.running():
                quiet_from = time.perf_counter()
                wait_until(lambda: time.monotonic() > opened + due_after, "the window ends", 2 * self._window)
                self._settle(client, night, others, found, quiet_from)
            self._audit(client, night, found)
        return found

    def _hold(self) -> None:
        self._redis.command(f"SET {SWEEPER} study PX {HELD_MS}")

    def _bytes(self, key: str) -> int:
        return int(self._redis.command(f"MEMORY USAGE {key} SAMPLES 0").lstrip(b":"))

    def _open(self, client: Client, night: str, acts: int) -> float:
        """Seconds it took; some of the decisions are answered."""
        started = time.monotonic()
        path = f"/v1/sessions/{night}"
        for call in range(acts // CALL):
            actions = client.call("acts", "POST", f"{path}/acts", {"count": CALL})["actions"]
            if call == 0:
                events = [
                    {"arm": action["arm"], "loss": 1, "event_id": f"click-{action['slot']}"}
                    for action in actions[:CLICKS]
                ]
                client.call("feedbacks", "POST", f"{path}/feedbacks", {"events": events})
        return time.monotonic() - started

    def _settle(self, client: Client, night: str, others: OtherSession, found: Burst, quiet_from: float) -> None:
        """Let go of the lease and act on all workers at once; ends when the store holds nothing due."""
        began = time.perf_counter()
        quiet = others.milliseconds(quiet_from, began)
        self._redis.command(f"DEL {SWEEPER}")
        killer = threading.Thread(target=self._kill) if found.killed else None
        if killer is not None:
            killer.start()
        with ThreadPoolExecutor(CALLERS) as pool:
            list(pool.map(partial(_act_once, self._service.url, night), range(CALLERS)))
        wait_until(lambda: _outstanding(client, night) <= CALLERS, "what is due is settled")
        ended = time.perf_counter()
        if killer is not None:
            killer.join()
        met = others.milliseconds(began, ended)
        found.settling, found.requests = ended - began, len(met)
        found.quiet_p99, found.burst_p99 = (float(np.percentile(each, 99)) for each in (quiet, met))
        found.burst_longest = max(met)

    def _kill(self) -> None:
        time.sleep(KILL_AFTER[self._rounds % len(KILL_AFTER)])
        workers = self._service.workers()
        with suppress(ProcessLookupError):
            os.kill(workers[self._rounds % len(workers)], signal.SIGKILL)

    def _audit(self, client: Client, night: str, found: Burst) -> None:
        view = client.call("view", "GET", f"/v1/sessions/{night}")
        found.counts = {name: view[name] for name in ("slot", "feedbacks", "expired", "removed", "outstanding")}
        slots, clicks = found.acts + CALLERS, min(CLICKS, found.acts)
        expected = {"slot": slots, "feedbacks": clicks, "expired": found.acts - clicks, "removed": 0}
        expected["outstanding"] = CALLERS
        found.problems += [
            f"{name} is {found.counts[name]}, should be {count}"
            for name, count in expected.items()
            if found.counts[name] != count
        ]


def _create(client: Client, session_id: str, **fields: Any) -> None:
    learner = {"kind": "centred_tsallis", "n_arms": N_ARMS}
    client.call(
        "create", "POST", "/v1/sessions", {"session_id": session_id, "learner": learner, "seed": 1} | fields
    )


def _act_once(url: str, session_id: str, number: int) -> None:
    with connection(url, timeout=ANSWER_SECONDS) as client:
        client.call("act", "POST", f"/v1/sessions/{session_id}/act", None, f"after-{number}")


def _outstanding(client: Client, session_id: str) -> int:
    """As the store has it: a list shows what is committed, where a view shows what is due as settled."""
    sessions = client.call("list", "GET", "/v1/sessions?limit=1000")["sessions"]
    return int(next(each["outstanding"] for each in sessions if each["session_id"] == session_id))


@contextmanager
def staged(logs: Path, window: float) -> Iterator[Study]:
    """Start Redis and a service of two workers; end them in any case."""
    with tempfile.TemporaryDirectory(prefix="burst-") as data, running_redis(Path(data), logs) as redis:
        store = f"redis://127.0.0.1:{redis.port}/0"
        with running_service(logs, "--workers", "2", "--store-url", store) as service:
            yield Study(redis, service, window)
