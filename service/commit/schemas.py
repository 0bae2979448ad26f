"""Which schema of states this worker writes: the newest that all live workers of its store read.

Each worker announces in the store which schemas it reads, before it serves, under a lease that it renews in the
background; one that is gone stops counting when its lease ends. So the workers of a newer version write the older
schema until the last of the older version is gone, and again as soon as one of these announces itself: within
``RENEW_SECONDS``. What they wrote in between the older ones refuse as ``NewerSchemaError`` and leave alone.

What is not known is assumed to be the worst: a worker writes the oldest schema that it knows until it has been
told of the same newer one twice, a renewal apart (a store that has failed over may have forgotten who is there),
and when its own lease is over.
"""

import asyncio
import logging
import secrets
import time
from collections.abc import Callable
from contextlib import suppress

from ..errors import StoreUnavailableError
from ..serialization.state import SCHEMAS
from ..store.base import Store

RENEW_SECONDS = 5.0
"""Time between two announcements."""
LEASE_SECONDS = 15.0
"""How long one counts: some of them may fail."""
RETRY_SECONDS = 0.5
"""Time from an announcement that failed to the next."""
LONGEST_SECONDS = 1.0
"""Time that the first announcement may take: a service whose store is away starts all the same."""
OLDEST = min(SCHEMAS)

log = logging.getLogger(__name__)


class Schemas:
    """What one worker reads and writes.

    Attributes
    ----------
    written : number of the schema to write now
    """

    def __init__(self, store: Store) -> None:
        self.written = OLDEST
        self._store = store
        self._worker = secrets.token_hex(8)
        self._agreed = OLDEST
        """What all could read at the announcement before."""
        self._lease_ends = 0.0
        """Monotonic seconds."""

    async def announce(self) -> None:
        """Say what this worker reads, and find out what all do.

        Raises
        ------
        StoreUnavailableError
        """
        begun = time.monotonic()
        readers = await self._store.announce(self._worker, sorted(SCHEMAS), LEASE_SECONDS)
        self._lease_ends = begun + LEASE_SECONDS
        agreed = max(set(SCHEMAS).intersection(*readers), default=OLDEST)
        self._write(min(agreed, self._agreed))
        self._agreed = agreed

    def _write(self, schema: int) -> None:
        if schema != self.written:
            log.info("sessions are written in schema %d from now on", schema)
            self.written = schema

    async def begin(self, on_failure: Callable[[str, str], None]) -> asyncio.Task[None]:
        """Announce, and return the task that renews the lease until it is cancelled.

        Parameters
        ----------
        on_failure : gets "announce" and the reason each time the store has failed
        """
        return asyncio.create_task(self._run(await self._renew(on_failure), on_failure))

    async def _run(self, is_announced: bool, on_failure: Callable[[str, str], None]) -> None:
        while True:
            await asyncio.sleep(RENEW_SECONDS if is_announced else RETRY_SECONDS)
            is_announced = await self._renew(on_failure, RENEW_SECONDS)

    async def _renew(self, on_failure: Callable[[str, str], None], seconds: float = LONGEST_SECONDS) -> bool:
        """Announce; return whether that was possible in time. Nothing that goes wrong ends the task."""
        try:
            async with asyncio.timeout(seconds):
                await self.announce()
        except TimeoutError:
            on_failure("announce", "the store did not answer in time")
        except StoreUnavailableError as error:
            on_failure("announce", str(error))
        except Exception:
            log.exception("announcing failed")
        else:
            return True
        if time.monotonic() > self._lease_ends:
            self._agreed = OLDEST
            self._write(OLDEST)
        return False

    async def withdraw(self) -> None:
        """Give the lease back, if the store answers: this worker serves no more."""
        with suppress(StoreUnavailableError):
            await self._store.announce(self._worker, sorted(SCHEMAS), 0)
