"""Settles due decisions of sessions that nobody calls.

One worker does it at a time, as long as it renews its lease; when it dies another one takes over within
seconds. Nothing rests on the lease: two sweepers at once would only meet conflicts.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from contextlib import suppress

from ..cooperative.answer_body import joined
from ..cooperative.fair_yield import FairYield
from ..errors import ServiceError, StateCorruptError, StoreDownError, UnknownSessionError
from ..store.base import Reminders, StoreUnavailableError
from .operations import SettleDue
from .service import Sessions

PERIOD_SECONDS = 0.5
LEASE_SECONDS = 3.0
SESSIONS_AT_ONCE = 4
MOST_PER_SHARD = 100
RETRY_SECONDS = 60.0
"""When a session that can't be read is looked at again."""

log = logging.getLogger(__name__)


class Sweeper:
    """The sweeper of one worker."""

    def __init__(self, reminders: Reminders, sessions: Sessions) -> None:
        self._reminders = reminders
        self._sessions = sessions
        self._worker = secrets.token_hex(8)
        self._stopping = asyncio.Event()

    async def run(self) -> None:
        """Sweep now and then until stopped."""
        while not self._stopping.is_set():
            try:
                await self.sweep()
            except StoreUnavailableError as error:
                log.debug("no sweep: %s", error)
            except Exception:
                log.exception("sweep failed")
            with suppress(TimeoutError):
                async with asyncio.timeout(PERIOD_SECONDS):
                    await self._stopping.wait()

    def stop(self) -> None:
        """End after the sessions at hand."""
        self._stopping.set()

    async def sweep(self) -> None:
        """Settle what is due, if this worker leads."""
        if not await self._reminders.lead(self._worker, LEASE_SECONDS):
            return
        due = list(await self._reminders.due(MOST_PER_SHARD))
        while due and not self._stopping.is_set():
            some, due = due[:SESSIONS_AT_ONCE], due[SESSIONS_AT_ONCE:]
            await asyncio.gather(*map(self._settle, some))
            if not await self._reminders.lead(self._worker, LEASE_SECONDS):
                return

    async def _settle(self, session_id: str) -> None:
        try:
            again = await joined((await self._sessions.submit(session_id, SettleDue())).body, FairYield())
            await self._reminders.done(session_id, float(again) if again else None)
        except UnknownSessionError:
            await self._reminders.done(session_id, None)
        except StateCorruptError:
            log.error("state can't be read: session %s", session_id)
            await self._reminders.done(session_id, self._sessions.now() + RETRY_SECONDS)
        except StoreDownError as error:
            raise StoreUnavailableError(str(error)) from error
        except ServiceError as error:
            log.warning("session %s is swept later: %s", session_id, error)
