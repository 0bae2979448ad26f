"""How many replicas have to acknowledge, as they come and go."""

from __future__ import annotations

from service.store.redis.connection import MISSED_SECONDS, ReplicaWatch, attached_in

LINE = "slave{n}:ip=127.0.0.1,port=70{n},state={state},offset=14,lag={lag}\r\n"


def info(*replicas: tuple[str, int]) -> bytes:
    """An INFO reply with replicas of these states and lags."""
    lines = (LINE.format(n=n, state=state, lag=lag) for n, (state, lag) in enumerate(replicas))
    return b"# Replication\r\nrole:master\r\n" + "".join(lines).encode() + b"master_replid:0\r\n"


class Replies:
    """A connection whose server has so many replicas."""

    def __init__(self) -> None:
        self.replicas = [("online", 0), ("online", 1)]
        self.asked = 0

    async def send(self, _: bytes) -> bytes:
        self.asked += 1
        return info(*self.replicas)


class Watched:
    """A watch, its server, its clock, and whether the sentinels name its master."""

    def __init__(self) -> None:
        self.now, self.confirmed, self.server = 100.0, True, Replies()
        self.watch = ReplicaWatch(self._is_confirmed, lambda: self.now)

    async def _is_confirmed(self) -> bool:
        return self.confirmed

    async def needed(self, after: float = 0.0) -> int:
        self.now += after
        return await self.watch.needed(self.server)  # type: ignore[arg-type]


def test_replicas_that_sync_or_are_silent_do_not_count() -> None:
    assert attached_in(info()) == 0
    assert attached_in(info(("online", 0), ("wait_bgsave", 0), ("online", 3), ("online", 4))) == 2


async def test_all_attached_replicas_are_needed_and_one_that_left_is_missed_for_a_time() -> None:
    watched = Watched()
    assert await watched.needed() == 2
    watched.server.replicas.pop()
    assert await watched.needed(1.5) == 2
    assert await watched.needed(MISSED_SECONDS - 1) == 2
    assert await watched.needed(1.5) == 1
    watched.server.replicas.append(("online", 0))
    assert await watched.needed(1.5) == 2


async def test_one_that_left_is_missed_from_when_that_was_seen_however_long_nobody_looked() -> None:
    watched = Watched()
    await watched.needed()
    watched.server.replicas.clear()
    assert await watched.needed(3600) == 2
    assert await watched.needed(MISSED_SECONDS + 1) == 0


async def test_it_is_missed_as_long_as_the_sentinels_do_not_name_this_master() -> None:
    watched = Watched()
    await watched.needed()
    watched.server.replicas.pop()
    watched.confirmed = False
    await watched.needed(2)
    assert await watched.needed(10 * MISSED_SECONDS) == 2
    watched.confirmed = True
    assert await watched.needed(2) == 1


async def test_one_that_comes_back_in_time_was_never_away() -> None:
    watched = Watched()
    await watched.needed()
    gone = watched.server.replicas.pop()
    await watched.needed(2)
    watched.server.replicas.append(gone)
    await watched.needed(2)
    watched.server.replicas.pop()
    assert await watched.needed(MISSED_SECONDS - 1) == 2


async def test_it_looks_once_a_second() -> None:
    watched = Watched()
    for _ in range(5):
        await watched.needed(0.1)
    assert watched.server.asked == 1
    await watched.needed(1)
    assert watched.server.asked == 2
