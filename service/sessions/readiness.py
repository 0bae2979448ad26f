"""Whether the store can commit now, answered within a second."""

from __future__ import annotations

import asyncio
import logging
import time

from ..errors import StoreUnavailableError
from ..store.base import NO_CONNECTION, Store

PING_SECONDS = 0.9
"""A health check answers within a second, also while the store hangs."""
WATCH_SECONDS = 1.0
"""Time between two pings while the store fails."""
SILENT_SECONDS = 30.0
"""Time for which a reason is not logged again."""
MAX_REASONS = 100
"""Reasons whose time is remembered."""

_ADVICE = "; start the store, or correct BANDIT_STORE_URL"

log = logging.getLogger(__name__)


class Readiness:
    """Pings the store, once for all who ask at the same time, and logs when that begins or ceases to fail.

    ``watch`` pings when a call has failed, and until one succeeds, so that the log tells of a failure when it
    happens.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._call_failed = asyncio.Event()
        self._silent_until: dict[str, float] = {}
        """Monotonic seconds by reason."""
        self._pinging: asyncio.Task[str | None] | None = None
        self._last: str | None = None

    def on_failure(self, call: str, reason: str) -> None:
        """Note that a call to the store has failed; a reason is logged once in ``SILENT_SECONDS``.

        Parameters
        ----------
        call : of the store, or the task that failed, for the log
        reason : in words that name no secret
        """
        self._call_failed.set()
        now = time.monotonic()
        if now >= self._silent_until.get(reason, now):
            if len(self._silent_until) >= MAX_REASONS:
                self._silent_until.clear()
            self._silent_until[reason] = now + SILENT_SECONDS
            log.warning("%s failed in the store: %s", call, reason)

    async def watch(self) -> None:
        """Ping at the start, after failed calls, and every ``WATCH_SECONDS`` while that fails; runs for ever."""
        while True:
            self._call_failed.clear()
            if await self.failure() is None:
                await self._call_failed.wait()
            else:
                await asyncio.sleep(WATCH_SECONDS)

    async def failure(self) -> str | None:
        """Return why the store can't commit now, in words that name no secret; None where it can."""
        if self._pinging is None or self._pinging.done():
            self._pinging = asyncio.create_task(self._checked())
        pinging = self._pinging
        await asyncio.wait([pinging])
        return pinging.result()

    async def _checked(self) -> str | None:
        reason = await self._ping()
        if reason is not None and reason != self._last:
            log.warning("not ready: %s%s", reason, _ADVICE if reason.startswith(NO_CONNECTION) else "")
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
