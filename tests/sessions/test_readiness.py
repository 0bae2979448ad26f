"""Whether the store can commit, as pings and commits have told: a slow one can, one that answers nothing can't."""

import asyncio
from types import SimpleNamespace

import pytest

from loadtest.processes import free_port
from service.errors import StoreUnavailableError
from service.sessions import service as module
from service.sessions.service import FAILING_SECONDS, SLOW_SECONDS, Readiness
from service.store import open_store
from service.store.base import NoAnswerError
from service.telemetry.metrics import Labels, Metrics


async def test_a_store_that_is_away_is_logged_with_what_to_do(caplog):
    store = open_store(f"redis://127.0.0.1:{free_port()}/0")
    reason = await Readiness(store, Metrics(Labels())).failure()
    await store.close()

    assert reason.startswith("no connection to the store")
    assert [record.getMessage() for record in caplog.records][-1] == (
        f"not ready: {reason}; start the store, or correct BANDIT_STORE_URL"
    )


NEVER, LONG_AGO = 1000.0, SLOW_SECONDS + 0.1
"""Seconds."""
LATE, REFUSED = NoAnswerError("no answer in time"), StoreUnavailableError("OOM")


@pytest.mark.parametrize(
    ("ping", "pinged", "committed", "failed", "ready"),
    [
        # While a ping is under way, the one before counts, or a commit.
        ("under way", SLOW_SECONDS - 0.1, NEVER, NEVER, True),
        ("under way", NEVER, NEVER, NEVER, False),
        ("under way", LONG_AGO, LONG_AGO, NEVER, False),
        ("under way", NEVER, SLOW_SECONDS - 0.1, NEVER, True),
        # Commits may take longer than a ping; they may not fail.
        (LATE, 1, NEVER, NEVER, False),
        (LATE, 1, SLOW_SECONDS - 0.1, NEVER, True),
        (LATE, 1, FAILING_SECONDS - 0.1, 1, True),
        (LATE, 1, FAILING_SECONDS + 0.1, 1, False),
        # What the store says counts.
        (REFUSED, 1, 1, NEVER, False),
    ],
)
async def test_a_slow_store_is_not_down(monkeypatch, ping, pinged, committed, failed, ready):
    """Seconds ago: the last ping that succeeded, the last commit that did, and the last one that failed."""
    answers, errors, now = asyncio.Event(), list[StoreUnavailableError](), [NEVER]
    answers.set()

    async def asked():
        await answers.wait()
        for error in errors:
            raise error

    monkeypatch.setattr(module, "PING_SECONDS", 0.01)
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now[-1]))
    readiness = Readiness(SimpleNamespace(ping=asked), metrics := Metrics(Labels()))
    now.append(NEVER - pinged)
    assert await readiness.failure() is None
    metrics.committed_at = NEVER - committed
    now.append(NEVER - failed)
    readiness.on_failure("commit", "no answer")
    now.append(NEVER)
    if ping == "under way":
        answers.clear()
    else:
        errors.append(ping)
    reason = await readiness.failure()
    answers.set()
    errors.clear()

    assert (reason is None) is ready
    assert await readiness.failure() is None
