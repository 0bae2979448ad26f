"""Faults of workers, service, store and the network between them, each made good again."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from loadtest.chaos.proxy import CuttingProxy, Where
from loadtest.processes import RedisProcess, ServiceProcess, wait_until

CUTS_APART = 0.02
"""Seconds between two cuts."""
CUTTING_SECONDS = 0.5
LONGEST_FREEZE = 1.2
"""Longer than a call to the store may take in rounds: some are carried out after they were given up."""


class Stage(NamedTuple):
    """What faults happen to."""

    redis: RedisProcess
    proxy: CuttingProxy
    service: ServiceProcess
    chance: random.Random


def kill_worker(stage: Stage) -> None:
    """SIGKILL one worker, or both; the supervisor replaces them."""
    for worker in stage.service.workers()[: stage.chance.randint(1, 2)]:
        with suppress(ProcessLookupError):
            os.kill(worker, signal.SIGKILL)


def kill_service(stage: Stage) -> None:
    """SIGKILL the supervisor, with which the workers end, and start the service again."""
    stage.service.end()
    stage.service.start()


def stop_service(stage: Stage) -> None:
    """SIGTERM the service under load, as a deployment does, and start it again."""
    stage.service.end(signal.SIGTERM)
    stage.service.start()


def kill_store(stage: Stage) -> None:
    """SIGKILL Redis and start it again on its append-only file."""
    stage.redis.end()
    time.sleep(stage.chance.uniform(0, 0.5))
    stage.redis.start()


def freeze_store(stage: Stage) -> None:
    """SIGSTOP Redis for a while; what was sent to it is carried out afterwards."""
    stage.redis.send(signal.SIGSTOP)
    time.sleep(stage.chance.uniform(0.05, LONGEST_FREEZE))
    stage.redis.send(signal.SIGCONT)


def freeze_worker(stage: Stage) -> None:
    """SIGSTOP one worker, so that others commit between its commits."""
    frozen = stage.chance.choice(stage.service.workers())
    os.kill(frozen, signal.SIGSTOP)
    time.sleep(stage.chance.uniform(0.05, LONGEST_FREEZE))
    os.kill(frozen, signal.SIGCONT)


def flush_scripts(stage: Stage) -> None:
    """Let Redis forget the scripts, again and again."""
    _repeat(lambda: stage.redis.command("SCRIPT FLUSH"))


def fill_memory(stage: Stage) -> None:
    """Let Redis refuse commits for want of memory for a while."""
    used = stage.redis.information("memory")["used_memory"]
    stage.redis.command(f"CONFIG SET maxmemory {used}")
    time.sleep(stage.chance.uniform(0.05, LONGEST_FREEZE))
    stage.redis.command("CONFIG SET maxmemory 0")


def cut_requests(stage: Stage) -> None:
    """Cut connections to Redis before a request arrives there, or in its middle."""
    _cut(stage, "request")


def cut_replies(stage: Stage) -> None:
    """Cut connections to Redis after a request was carried out, before its reply or in its middle."""
    _cut(stage, "reply")


def _cut(stage: Stage, what: str) -> None:
    places: dict[str, tuple[Where, Where]] = {
        "request": ("request", "half_request"),
        "reply": ("reply", "half_reply"),
    }
    _repeat(lambda: stage.proxy.arm(stage.chance.choice(places[what])))
    stage.proxy.arm()


def _repeat(fault: Callable[[], object]) -> None:
    until = time.monotonic() + CUTTING_SECONDS
    while time.monotonic() < until:
        fault()
        time.sleep(CUTS_APART)


FAULTS: dict[str, Callable[[Stage], None]] = {
    "worker killed": kill_worker,
    "service killed": kill_service,
    "service stopped": stop_service,
    "store killed": kill_store,
    "store frozen": freeze_store,
    "worker frozen": freeze_worker,
    "scripts forgotten": flush_scripts,
    "memory full": fill_memory,
    "request cut": cut_requests,
    "reply cut": cut_replies,
}


class Freeze(NamedTuple):
    """How the service behaved while its store was frozen for long, in seconds."""

    red_after: float
    """From the freeze until ``/readyz`` was not ready."""
    slowest_livez: float
    ready_after: float
    """From the thaw until ``/readyz`` was green."""

    def problems(self, time_factor: float = 1.0) -> list[str]:
        """Return the exceeded time limits, each multiplied by ``time_factor`` first."""
        limits = [time_factor * bound for bound in (2.0, 1.0, 5.0)]
        named = zip(self._fields, self, limits, strict=True)
        return [
            f"{name} was {seconds:.2f} s, allowed {limit:g} s" for name, seconds, limit in named if seconds > limit
        ]


def freeze_long(stage: Stage, seconds: float) -> Freeze:
    """SIGSTOP Redis for so long and watch what the service says of itself."""
    stage.redis.send(signal.SIGSTOP)
    frozen = time.monotonic()
    red_after = wait_until(lambda: not stage.service.ready(), "readiness turns red")
    slowest = 0.0
    while (now := time.monotonic()) < frozen + seconds:
        if stage.service.status("/livez") != 200:
            slowest = float("inf")
        slowest = max(slowest, time.monotonic() - now)
        time.sleep(0.1)
    stage.redis.send(signal.SIGCONT)
    return Freeze(red_after, slowest, wait_until(stage.service.ready, "readiness turns green"))
