"""Pages of sessions, on every store."""

from __future__ import annotations

import pytest

from service.store.base import Store
from tests.support.sessions import commit, digest, new_session


async def pages(store: Store, limit: int) -> list[list[str]]:
    found: list[list[str]] = []
    cursor = None
    while True:
        page = await store.list(cursor, limit)
        found.append(list(page.session_ids))
        cursor = page.next_cursor
        if cursor is None:
            return found


async def test_no_sessions_are_one_empty_page(store: Store) -> None:
    assert await pages(store, 10) == [[]]


@pytest.mark.parametrize("limit", [1, 3, 50, 119, 120, 1000])
async def test_pages_hold_every_session_within_the_limit(store: Store, limit: int) -> None:
    names = [f"s{n}.x-{n}_" for n in range(120)]
    for name in names:
        await store.create(new_session(name))
        fields = {"events": [digest(1)], "records": {b"1": b"x"}, "answers": {digest(2): b"y"}}
        await store.commit(commit("v0", "v1", session_id=name, **fields))

    found = await pages(store, limit)

    assert max(map(len, found)) <= limit
    assert {name for page in found for name in page} == set(names)


@pytest.mark.slow
async def test_sessions_present_all_along_are_listed_while_others_come_and_go(store: Store) -> None:
    """Growing and shrinking the store between pages moves its keys about, and loses none."""
    staying = {f"stay{n}" for n in range(200)}
    passing = [f"pass{n}" for n in range(1500)]
    for name in [*staying, *passing[:1000]]:
        await store.create(new_session(name))
    seen: set[str] = set()
    cursor, turn = None, 0
    while True:
        page = await store.list(cursor, 7)
        seen |= set(page.session_ids)
        for name in passing[10 * turn : 10 * turn + 10]:
            await store.delete(name)
        await store.create(new_session(passing[1000 + turn % 500]))
        cursor, turn = page.next_cursor, turn + 1
        if cursor is None:
            break

    assert staying <= seen


@pytest.mark.parametrize(
    "cursor", ["", "end", "0", "x y", "~", "-1", "0x10", "1~", "1~a b", "99999999999999999999", "1~a~", "é"]
)
async def test_a_foreign_cursor_is_refused(store: Store, cursor: str) -> None:
    with pytest.raises(ValueError, match="cursor"):
        await store.list(cursor, 10)
