"""Whether the store can commit now, told within a second."""

from __future__ import annotations

import asyncio

from service.store.base import Store, StoreUnavailableError

PING_SECONDS = 0.9
"""A health check answers within a second, also while the store hangs."""


class Readiness:
    """Asks the store, once for all who ask at the same time."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._asking: asyncio.Task[str | None] | None = None

    async def failure(self) -> str | None:
        """Why the store can't commit now; None where it can."""
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(self._ask())
        return await asyncio.shield(self._asking)

    async def _ask(self) -> str | None:
        try:
            async with asyncio.timeout(PING_SECONDS):
                await self._store.ping()
        except TimeoutError:
            return "The store did not answer in time"
        except StoreUnavailableError as error:
            return str(error)
        return None
