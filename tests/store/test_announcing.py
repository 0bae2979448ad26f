"""Which workers are live, and which schemas of states they read, on every store."""

from tests.support.waiting import until


async def live(store):
    return sorted(sorted(each) for each in await store.announce("nobody", [], 0))


async def test_a_worker_counts_until_its_lease_ends_or_it_says_so(store):
    assert await store.announce("a", [1], 30) == [{1}]
    await store.announce("b", [1, 2], 30)
    await store.announce("c", [2, 3], 0.3)
    assert await live(store) == [[1], [1, 2], [2, 3]]

    async def expired():
        return await live(store) == [[1], [1, 2]]

    await until(expired)
    await store.announce("a", [1], 30)
    assert await store.announce("b", [1, 2], 0) == [{1}]
    await store.announce("a", [1], 0)
    assert await live(store) == []
