"""Whether the store can commit now, told within a second."""

from __future__ import annotations

import asyncio
import logging

from ..store.base import Store, StoreUnavailableError

PING_SECONDS = 0.9
"""A health check answers within a second, also while the store hangs."""

log = logging.getLogger(__name__)


class Readiness:
    """Asks the store, once for all who ask at the same time, and logs when its answer turns."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._asking: asyncio.Task[str | None] | None = None
        self._last: str | None = None

    async def failure(self) -> str | None:
        """Why the store can't commit now; None where it can."""
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(self._look())
        return await asyncio.shield(self._asking)

    async def _look(self) -> str | None:
        reason = await self._ask()
        if reason is not None and reason != self._last:
            log.warning("not ready: %s", reason)
        elif reason is None and self._last is not None:
            log.info("ready again")
        self._last = reason
        return reason

    async def _ask(self) -> str | None:
        try:
            async with asyncio.timeout(PING_SECONDS):
                await self._store.ping()
        except TimeoutError:
            return "The store did not answer in time"
        except StoreUnavailableError as error:
            return str(error)
        return None
