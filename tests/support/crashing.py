"""A worker on a real store that can be made to die, or to lose a reply, at a commit."""

from collections.abc import Callable
from typing import Any, Literal

from service.errors import StoreUnavailableError
from service.store.base import Commit, Outcome, Store
from tests.support.sessions import sessions_on

Fault = Literal["not sent", "reply lost"]


class CrashingStore:
    """A store with a clock that is handed in; ``fault`` strikes the next commit, once."""

    def __init__(self, store: Store, clock: Callable[[], float]) -> None:
        self._store = store
        self.now = clock
        self.fault: Fault | None = None
        self.commits = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def commit(self, commit: Commit) -> Outcome:
        fault, self.fault = self.fault, None
        if fault == "not sent":
            raise StoreUnavailableError(fault)
        outcome = await self._store.commit(commit)
        self.commits += 1
        if fault == "reply lost":
            raise StoreUnavailableError(fault)
        return outcome


class Worker:
    """Sessions on a store of its own; reborn it knows nothing any more."""

    def __init__(self, store: Store, clock: Callable[[], float]) -> None:
        self.store = CrashingStore(store, clock)
        self.reborn()

    def reborn(self) -> None:
        """Forget all that is not in the store."""
        self.sessions = sessions_on(self.store)
