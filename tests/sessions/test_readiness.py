"""What the log says of a store that is away."""

from __future__ import annotations

from loadtest.processes import free_port
from service.sessions.service import Readiness
from service.store import open_store


async def test_a_store_that_is_away_is_logged_with_what_to_do(caplog):
    store = open_store(f"redis://127.0.0.1:{free_port()}/0")
    reason = await Readiness(store).failure()
    await store.close()

    assert reason is not None
    assert reason.startswith("no connection to the store")
    assert [record.getMessage() for record in caplog.records][-1] == (
        f"not ready: {reason}; start the store, or correct BANDIT_STORE_URL"
    )
