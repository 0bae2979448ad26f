"""Sessions in a store, and a client for each that keeps committing."""

import asyncio

from service.store.base import Committed, StoreOptions
from service.store.redis.store import RedisStore
from tests.support.sessions import commit, digest, new_session

NAMES = [f"s{n}" for n in range(60)]


async def store_with_sessions(url: str, options: StoreOptions | None = None) -> RedisStore:
    store = RedisStore(url, options)
    await asyncio.gather(*(store.create(new_session(name, spec=name.encode(), state=b"")) for name in NAMES))
    return store


class Load:
    """A client for each session, which makes the state a byte longer with each commit."""

    def __init__(self, store: RedisStore) -> None:
        self._store = store
        self._done = False
        self.made = dict.fromkeys(NAMES, 0)
        self._clients = [asyncio.create_task(self._keep_committing(name)) for name in NAMES]

    async def _keep_committing(self, name: str) -> None:
        while not self._done:
            n = self.made[name]
            grown = commit(
                f"a-{n}", f"a-{n + 1}", session_id=name, state=b"x" * (n + 1), event_ids=[digest((name, n))]
            )
            assert await self._store.commit(grown) == Committed()
            self.made[name] = n + 1

    async def more(self) -> None:
        """Wait until each client had ten more commits acknowledged."""
        wanted = {name: n + 10 for name, n in self.made.items()}
        async with asyncio.timeout(60):
            while any(self.made[name] < n for name, n in wanted.items()):
                done, _ = await asyncio.wait(self._clients, timeout=0.01)
                for client in done:
                    client.result()

    async def end(self) -> None:
        self._done = True
        await asyncio.gather(*self._clients)
