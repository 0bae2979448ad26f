"""How sessions developed: samples taken beside the commits, thinned with age."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from contextlib import suppress

from ..commit.batch import Journal
from ..commit.cache import SessionCache
from ..cooperative import FairYield
from ..errors import NewerSchemaError, StateCorruptError, StoreUnavailableError, UnknownSessionError
from ..serialization.summary import Sample
from ..store.base import Store
from .views import Reader

# -- Which samples of a history stay: the older they are, the fewer.
#
# A sample's place is the number of its five seconds since 1970. The latest ``PER_LEVEL`` places are level 0. Each
# further level has places four times as wide, reaches four times as far back, and keeps the last sample of each.

PERIOD_SECONDS = 5.0
"""Width of a place, and the time between two samples of a session."""
GROWTH = 4
PER_LEVEL = 36
LEVELS = 11
"""The last of them reaches back six years."""
MAX_SAMPLES = PER_LEVEL + (LEVELS - 1) * (PER_LEVEL - PER_LEVEL // GROWTH + 2)
"""What is left of any history, at most."""


def place_of(at: float) -> int:
    """Return the place of a sample taken at a time, in Unix seconds."""
    return int(at // PERIOD_SECONDS)


def dropped(places: Iterable[int], now: int) -> set[int]:
    """Return which of these places are to be dropped.

    Parameters
    ----------
    places : of a history's samples, in any order
    now : the present place
    """
    kept: dict[tuple[int, int], int] = {}
    everything = set(places)
    for place in sorted(everything):
        # The finest level that reaches back to it.
        if (level := next((n for n in range(LEVELS) if now - place < PER_LEVEL * GROWTH**n), None)) is not None:
            kept[level, place // GROWTH**level] = place
    return everything - set(kept.values())


# -- Takes samples of the sessions that this worker has changed, beside the commits.
#
# Every worker samples its own sessions. A session that several workers change has one sample at each place,
# whoever writes it last. Samples are best effort: what a worker has not written when it ends is lost.

AT_ONCE = 250
"""Sessions sampled in one period; others wait for the next, in order."""
MAX_STORED = MAX_SAMPLES + 64
"""Samples from which on a history is thinned."""

log = logging.getLogger(__name__)


class Sampler:
    """The sampler of one worker.

    Parameters
    ----------
    store : has the sessions, and gets the samples
    cache : knows which sessions the worker has changed
    reader : reads those that are not in the cache any more
    """

    def __init__(self, store: Store, cache: SessionCache, reader: Reader) -> None:
        self._store, self._cache, self._reader = store, cache, reader
        self._stopping = asyncio.Event()

    async def run(self, on_failure: Callable[[str, str], None]) -> None:
        """Take samples every ``PERIOD_SECONDS`` until stopped.

        Parameters
        ----------
        on_failure : gets "history" and the reason each time the store has failed
        """
        while not self._stopping.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(PERIOD_SECONDS):
                    await self._stopping.wait()
            try:
                await self.sample()
            except StoreUnavailableError as error:
                on_failure("history", str(error))
            except Exception:
                log.exception("sampling failed")

    def stop(self) -> None:
        """Take the last samples and end."""
        self._stopping.set()

    async def sample(self) -> None:
        """Take a sample of the sessions that have changed since the last time, at most ``AT_ONCE``.

        Raises
        ------
        StoreUnavailableError
        """
        fair_yield = FairYield()
        for session_id in self._cache.take_changed(AT_ONCE):
            with suppress(UnknownSessionError, StateCorruptError, NewerSchemaError):
                await self._sample(session_id)
            await fair_yield()

    async def _sample(self, session_id: str) -> None:
        if (cached := self._cache.peek(session_id)) is None:
            _, cached = await self._reader.settled(session_id, Journal())
        now = self._store.now()
        sample = Sample.of(cached.run, now).encode()
        stored = await self._store.record_sample(session_id, cached.created_at, place_of(now), sample)
        if stored is not None and stored > MAX_STORED:
            places = (await self._store.read_samples(session_id) or {}).keys()
            if old := dropped(places, place_of(now)):
                await self._store.thin_samples(session_id, old, len(places) - len(old))
