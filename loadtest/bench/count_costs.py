"""What counts of arms add to a commit: processor time of a worker's part and of Redis, with and without them."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple
from unittest import mock

from loadtest.processes import RedisProcess
from loadtest.processes.redis_process import started
from service.commit.batch import Journal
from service.learners import REGISTRY
from service.learners.dexp3 import Dexp3Spec
from service.models.events import ArmEvent
from service.models.specification import Specification
from service.sessions.act import Act
from service.sessions.feedback import SettleFeedback
from service.sessions.service import Sessions
from service.settings import Settings
from service.store.redis.store import RedisStore
from service.telemetry.metrics import Labels, Metrics

ARMS = 10
COUNTED, BARE = "counted", "bare"
"""Names of the two sessions."""


class Costs(NamedTuple):
    """Microseconds of processor time of a commit, by repetition."""

    counted: Sequence[float]
    bare: Sequence[float]

    @property
    def ratio(self) -> float:
        """That with counts over that without, of the lowest tenth of each: other load on the machine only adds."""
        counted, bare = (statistics.quantiles(times, n=10)[0] for times in self)
        return counted / bare


async def count_costs(program: str | None, repetitions: int, pairs: int) -> Costs:
    """Let one client act and report in two sessions in turn, of which one is committed without counts.

    Parameters
    ----------
    program : server of the store; found if not given
    pairs : acts, each with an event, of a session in one repetition
    """
    found: dict[str, list[float]] = {COUNTED: [], BARE: []}
    with TemporaryDirectory() as name, started(_redis(Path(name), program)) as redis:
        store = RedisStore(f"redis://127.0.0.1:{redis.port}/0")
        sessions = Sessions(store, Settings(), Metrics(Labels(learners=REGISTRY)))
        for session in found:
            await sessions.create(session, Specification(learner=Dexp3Spec(n_arms=ARMS), seed=1), None)
        for number in range(repetitions + 1):
            for session in (COUNTED, BARE) if number % 2 else (BARE, COUNTED):
                used = await _measured(sessions, redis, session, pairs)
                if number:  # The first one warms up.
                    found[session].append(used)
        await store.close()
    return Costs(found[COUNTED], found[BARE])


def _redis(folder: Path, program: str | None) -> RedisProcess:
    # Waiting for the disk would end a turn of the worker at other places.
    return RedisProcess(folder, folder, "--appendfsync", "everysec", program=program)


async def _measured(sessions: Sessions, redis: RedisProcess, session: str, pairs: int) -> float:
    """Microseconds of both processes for a commit."""
    counts = Journal.counts if session == COUNTED else _no_counts
    with mock.patch.object(Journal, "counts", counts):
        before = time.process_time() + _used(redis)
        for number in range(pairs):
            answer = await sessions.submit(session, Act(1, 10**6, single=True))
            assert isinstance(answer.body, bytes)  # noqa: S101 - the answer of one act is short
            event = ArmEvent(arm=json.loads(answer.body)["arm"], loss=number % 7 / 7)
            await sessions.submit(session, SettleFeedback([event], None))
        return (time.process_time() + _used(redis) - before) / (2 * pairs) * 1e6


async def _no_counts(*_: Any, **__: Any) -> dict[int, list[float]]:
    return {}


def _used(redis: RedisProcess) -> float:
    used = redis.information("cpu")
    return float(used["used_cpu_user"]) + float(used["used_cpu_sys"])
