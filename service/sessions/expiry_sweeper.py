"""Settles due decisions of sessions that nobody calls, and counts the sessions that have hints.

One worker sweeps at a time, as long as it renews its lease; when it dies another one takes over within
seconds. Correctness does not depend on the lease: two sweepers at once would only meet conflicts.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

from ..cooperative import FairYield, joined
from ..errors import NewerSchemaError, ServiceError, StateCorruptError, StoreUnavailableError, UnknownSessionError
from ..serialization import summary
from ..store.base import Store
from .changes import NextDue
from .service import Sessions

PERIOD_SECONDS = 0.5
"""Time between two sweeps."""
LEASE_SECONDS = 3.0
"""How long a lease lasts that is not renewed; another worker may acquire it after that."""
SESSIONS_AT_ONCE = 4
"""Sessions settled at the same time; the lease is renewed after each group."""
MAX_PER_SHARD = 100
"""Due sessions read from each shard in one sweep."""
RETRY_SECONDS = 60.0
"""After this time a session that can't be read is tried again."""
LOOKED_AT = 50
"""Sessions whose hints are looked at in one sweep: of large ones the store takes up to 0.2 ms each."""
LOOKING_SHARE = 0.02
"""Of the time, what looking may take at most."""
REST_SECONDS = 30.0
"""Time after all sessions were looked at, before they are looked at again."""

log = logging.getLogger(__name__)


@dataclass
class Sweeper:
    """The sweeper of one worker; it works only while this worker holds the lease.

    Parameters
    ----------
    store : its reminders say which sessions are due, and it says who sweeps
    sessions : of the same store, where due decisions are settled
    tell : gets the number of sessions that are due and not settled yet, whenever it has changed
    on_failure : gets "sweep" and the reason each time the store has failed a sweep
    tell_hints : gets the number of sessions by the code of their hint, whenever all sessions were looked at
    """

    store: Store
    sessions: Sessions
    tell: Callable[[float], None] = lambda _: None
    on_failure: Callable[[str, str], None] = lambda _call, _reason: None
    tell_hints: Callable[[Mapping[str, int]], None] = lambda _: None
    _worker: str = field(default_factory=partial(secrets.token_hex, 8))
    _stopping: asyncio.Event = field(default_factory=asyncio.Event)
    _found: Counter[str] = field(default_factory=Counter)
    """Sessions by hint, of those that were looked at."""
    _cursor: str | None = None
    _look_at: float = 0.0
    """Monotonic seconds before which no more sessions are looked at."""

    async def run(self) -> None:
        """Sweep every ``PERIOD_SECONDS`` until stopped; failures are logged."""
        while not self._stopping.is_set():
            try:
                await self.sweep()
            except StoreUnavailableError as error:
                self.on_failure("sweep", str(error))
            except Exception:
                log.exception("sweep failed")
            with suppress(TimeoutError):
                async with asyncio.timeout(PERIOD_SECONDS):
                    await self._stopping.wait()

    def stop(self) -> None:
        """End after the sessions that are being settled."""
        self._stopping.set()

    async def sweep(self) -> None:
        """Settle what is due, if this worker has the lease.

        Raises
        ------
        StoreUnavailableError
        """
        if not await self.store.acquire_lease(self._worker, LEASE_SECONDS):
            self.tell(0)
            self.tell_hints({})
            return
        due = list(await self.store.due(MAX_PER_SHARD))
        self.tell(len(due))
        while due and not self._stopping.is_set():
            some, due = due[:SESSIONS_AT_ONCE], due[SESSIONS_AT_ONCE:]
            await asyncio.gather(*map(self._settle, some))
            self.tell(len(due))
            if not await self.store.acquire_lease(self._worker, LEASE_SECONDS):
                return
        if time.monotonic() >= self._look_at:
            await self._look()

    async def _look(self) -> None:
        """Count the hints of some more sessions."""
        began, fair_yield = time.monotonic(), FairYield()
        page = await self.store.list(self._cursor, LOOKED_AT)
        for session in page.sessions:
            shown = summary.decode(session.about, session.head) or {}
            self._found.update(hint["code"] for hint in shown.get("hints", ()))
            await fair_yield()
        self._cursor, now = page.next_cursor, time.monotonic()
        self._look_at = now + (now - began) / LOOKING_SHARE
        if self._cursor is None:
            self.tell_hints(self._found)
            self._found, self._look_at = Counter(), max(self._look_at, now + REST_SECONDS)

    async def _settle(self, session_id: str) -> None:
        try:
            again = await joined((await self.sessions.submit(session_id, NextDue())).body, FairYield())
            await self.store.reschedule(session_id, float(again) if again else None)
        except UnknownSessionError:
            await self.store.reschedule(session_id, None)
        except (StateCorruptError, NewerSchemaError) as error:
            log.error("%s: session %s", error, session_id)
            await self.store.reschedule(session_id, self.sessions.now() + RETRY_SECONDS)
        except StoreUnavailableError:
            raise
        except ServiceError as error:
            log.warning("session %s is swept later: %s", session_id, error)
