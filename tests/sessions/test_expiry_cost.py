"""What outstanding decisions cost: bytes in the store, and work at an act, an event and a commit."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import pytest

from service.commit.cache import CachedSession
from service.engine.ledger import ArmAction, ArmFeedback, Expiry, Params
from service.engine.run import Run, start_run
from service.learners import REGISTRY
from service.models.specification import ExpirySpec, Specification
from service.serialization import records
from service.serialization import state as codec
from service.sessions.act import Act
from service.store import open_store
from tests.support.crashing import Worker
from tests.support.machines import FIELDS
from tests.support.real_redis import RedisServer

BUCKETS = 64
WINDOW = float(BUCKETS)
N_ARMS = 100
CALL = 300


@pytest.mark.slow
async def test_outstanding_decisions_cost_under_a_megabyte_however_many(redis_server: RedisServer) -> None:
    """All buckets and nearly all arms are in use; three times as many decisions take as many 64-bit counts."""
    now = float(int(time.time()))
    worker = Worker(open_store(redis_server.url), lambda: now)
    spec = REGISTRY["dexp3"].model_validate({"kind": "dexp3", "n_arms": N_ARMS})
    expiry = ExpirySpec(after_seconds=WINDOW, default_loss=1.0)
    sizes = []
    for calls in (1, 3):
        await worker.sessions.create("s", Specification(learner=spec, seed=1, expiry=expiry), None)
        for _ in range(BUCKETS):
            for _ in range(calls):
                await worker.sessions.submit("s", Act(CALL, 10**6))
            now += 1
        sizes.append(stored_bytes(redis_server))
        outstanding = codec.decode(
            (await worker.store.load("s")).state, spec.build().state_type, by_arm=True
        ).ledger
        assert outstanding.outstanding == calls * BUCKETS * CALL
        await worker.sessions.delete("s")
    await worker.store.close()

    assert sizes[0] > BUCKETS * N_ARMS * 8
    assert sizes[1] == pytest.approx(sizes[0], rel=0.1)
    assert max(sizes) < 2**20


def stored_bytes(server: RedisServer) -> int:
    """What the server's memory holds of all its keys."""
    return sum(server.client.memory_usage(key, samples=0) or 0 for key in server.client.scan_iter())


def run_with(kind: str, acts: int, fields: dict[str, Any]) -> Run:
    """Decisions of all but one bucket outstanding, as the store holds them."""
    spec = REGISTRY[kind].model_validate({"kind": kind} | fields)
    run = start_run(Params(spec, 5, expiry=Expiry(WINDOW, 1.0)))
    for number in range(acts):
        run.advance(1e9 + number * (BUCKETS - 1) / acts)
        run.act()
    run.advance(1e9 + BUCKETS - 1)
    run.on_written(codec.rows_of(run))
    return run


def one_commit(run: Run) -> list[bytes]:
    """An act, its event and what is sent to the store of both."""
    copy = run.copy()
    action = copy.act()
    assert isinstance(action, ArmAction)
    copy.settle(ArmFeedback(action.arm, 0.5, action.slot))
    copy.act()
    changed = [data for data in records.encode(copy).values() if data is not None]
    return [CachedSession.encode(copy), *changed]


def calls_of(work: Callable[[], object]) -> int:
    """Functions called, Python's and numpy's."""
    count = 0

    def note(_: object, event: str, __: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.parametrize("kind", FIELDS)
def test_work_and_bytes_do_not_grow_with_what_is_outstanding(kind: str) -> None:
    """Fifty times as many decisions; the margin is for a solver's steps and for free instances."""
    fields = FIELDS[kind] | {"n_arms": 20} | ({"max_open_slots": 10_000} if kind == "exp3" else {})
    few, many = (run_with(kind, acts, fields) for acts in (128, 6400))
    sent = [sum(map(len, one_commit(run))) for run in (few, many)]

    assert many.ledger.outstanding >= (20 if kind == "bold" else 6000)
    assert calls_of(lambda: one_commit(many)) <= 1.5 * calls_of(lambda: one_commit(few))
    assert sent[1] <= 1.5 * sent[0]


@pytest.mark.parametrize("kind", FIELDS)
def test_bytes_of_a_commit_grow_with_the_arms_at_most(kind: str) -> None:
    few, many = (run_with(kind, 1000, FIELDS[kind] | {"n_arms": n_arms}) for n_arms in (100, 1000))
    sent = [sum(map(len, one_commit(run))) for run in (few, many)]

    assert sent[1] <= 10 * sent[0]
