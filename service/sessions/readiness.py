"""Whether the store can commit now, answered within a second."""

from __future__ import annotations

import asyncio
import logging

from ..store.base import Store, StoreUnavailableError

PING_SECONDS = 0.9
"""A health check answers within a second, also while the store hangs."""

log = logging.getLogger(__name__)


class Readiness:
    """Pings the store, once for all who ask at the same time, and logs when that begins or ceases to fail."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._pinging: asyncio.Task[str | None] | None = None
        self._last: str | None = None

    async def failure(self) -> str | None:
        """Why the store can't commit now, in words that name no secret; None where it can."""
        if self._pinging is None or self._pinging.done():
            self._pinging = asyncio.create_task(self._checked())
        return await asyncio.shield(self._pinging)

    async def _checked(self) -> str | None:
        reason = await self._ping()
        if reason is not None and reason != self._last:
            log.warning("not ready: %s", reason)
        elif reason is None and self._last is not None:
            log.info("ready again")
        self._last = reason
        return reason

    async def _ping(self) -> str | None:
        try:
            async with asyncio.timeout(PING_SECONDS):
                await self._store.ping()
        except TimeoutError:
            return "The store did not answer in time"
        except StoreUnavailableError as error:
            return str(error)
        return None
