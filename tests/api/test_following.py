"""A decision log is followed: positions, cursors that stay good, and readers that wait for the next entry."""

import asyncio
import time

import httpx
import pytest

from service.errors import NewerSchemaError, StateCorruptError
from service.serialization.state import NEWEST
from service.sessions import pages
from service.store.memory import MemoryStore
from tests.support.one_session import PATH, act, acts, answered, moved, patch, session
from tests.support.sessions import commit
from tests.support.waiting import until


async def start(client, most=1000):
    await session(client, arms=["a", "b"], decision_log={"max_entries": most})


async def read(client, cursor=None, status=200, **query):
    query |= {} if cursor is None else {"cursor": cursor}
    return await answered(client, "GET", f"{PATH}/decisions", status, params=query)


def positions(page):
    assert {entry["session_id"] for entry in page["decisions"]} <= {"s"}
    return [entry["position"] for entry in page["decisions"]]


def logs_of(client):
    return client._transport.app.state.runtime.sessions.logs


async def waiting(client, readers=1):
    """Wait until so many readers do."""

    async def are_there():
        await asyncio.sleep(0)
        return pages.MAX_WAITING - logs_of(client)._places == readers

    await until(are_there)


async def reading(client, cursor=None, status=200):
    """A task that waits for the next entry."""
    reader = asyncio.create_task(read(client, cursor, status, wait_seconds=30))
    await waiting(client)
    return reader


# -- Positions and cursors.


async def test_positions_count_all_entries_whoever_commits_them(make_client, client, memory):
    other = await make_client(memory)
    await start(client)
    for each in (client, other, client):
        event = {"arm": (await act(each))["arm"], "loss": 0.5, "event_id": "once"}
        await each.post(f"{PATH}/feedbacks", params={"on_surplus": "skip"}, json={"events": [event, event]})
    await patch(other, floor=0.1)

    page = await read(client)

    assert positions(page) == [1, 2, 3, 4, 5, 6]
    assert [each["kind"] for each in page["decisions"]] == ["session", "act", "event", "act", "act", "session"]


async def test_a_cursor_goes_on_behind_its_page_and_also_where_nothing_was(client):
    await start(client)
    page = await read(client)
    assert (page["decisions"], page["next_cursor"]) == ([], None)
    found = []
    for count in (2, 0, 1, 2):
        if count:
            await acts(client, count=count)
        page = await read(client, page["cursor"], limit=2)
        assert (page["next_cursor"] == page["cursor"]) == (not found)
        assert "missed" not in page
        found += positions(page)

    assert found == [1, 2, 3, 4, 5, 6]
    assert positions(await read(client, page["cursor"])) == []


async def test_who_is_slower_than_the_trimming_is_told_once(client):
    await start(client, most=8)
    cursor = (await read(client))["cursor"]
    await acts(client, count=6)  # With two entries of the session.
    assert "missed" not in await read(client, cursor)
    await acts(client, count=1)

    page = await read(client, cursor, limit=2)

    assert (page["missed"], positions(page)) == (True, [3, 4])
    after = await read(client, page["cursor"])
    assert ("missed" in after, positions(after)) == (False, [5, 6, 7, 8, 9, 10])
    assert "missed" not in await read(client)


async def test_an_import_goes_on_behind_the_entries_elsewhere(make_client, client):
    await start(client)
    await acts(client, count=3)
    early, late = await read(client, limit=2), await read(client)
    elsewhere = await make_client(MemoryStore())
    await moved(client, elsewhere)

    empty = await read(elsewhere)
    assert (empty["decisions"], empty["cursor"]) == ([], late["cursor"])
    assert (await read(elsewhere, early["cursor"]))["missed"] is True
    await act(elsewhere)
    await act(elsewhere)
    for cursor, missed in ((early["cursor"], True), (late["cursor"], False), (None, False)):
        page = await read(elsewhere, cursor)
        assert (positions(page), "missed" in page) == ([5, 6, 7], missed)
        assert [entry["kind"] for entry in page["decisions"]] == ["session", "act", "act"]


async def test_a_cursor_of_the_session_before_is_refused(client, clock):
    for later in (0, 1):
        clock.now += later
        await start(client)
        await act(client)
        cursor = (await read(client))["cursor"]
        await client.delete(PATH)
        clock.now += later
        await start(client)
        assert "had this id before" in (await read(client, cursor, 422))["detail"]
        await client.delete(PATH)


@pytest.mark.parametrize("wait", ["-1", "31", "nan", "inf", "x", ""])
async def test_nobody_waits_longer_than_thirty_seconds(client, wait):
    await start(client)
    await read(client, None, 422, wait_seconds=wait)


@pytest.mark.parametrize(
    ("state", "error"), [(bytes([NEWEST + 1, 3, 0]), NewerSchemaError), (b"", StateCorruptError)]
)
async def test_a_log_without_entries_whose_session_can_not_be_read(client, memory, state, error):
    await start(client)
    await memory.commit(commit(memory._sessions["s"].version, "a-1", state=state))

    assert (await read(client, None, error.status))["code"] == error.code


# -- Readers that wait.


async def test_a_reader_waits_for_the_next_entry_and_no_longer(client):
    await start(client)
    cursor = (await read(client))["cursor"]
    reader = await reading(client, cursor)
    began = time.monotonic()
    await act(client)

    assert positions(await reader) == [1, 2]
    assert time.monotonic() - began < 5
    assert positions(await read(client, cursor, wait_seconds=30)) == [1, 2]
    nothing = await read(client, (await read(client))["cursor"], wait_seconds=0.01)
    assert (nothing["decisions"], nothing["next_cursor"]) == ([], None)
    await waiting(client, 0)


async def test_what_another_worker_commits_is_found_too(make_client, client, memory):
    other = await make_client(memory)
    await start(client)
    reader = await reading(client)
    await act(other)

    assert positions(await reader) == [1, 2]


@pytest.mark.parametrize("is_made_again", [False, True])
@pytest.mark.parametrize("is_other", [False, True])
async def test_who_reads_a_deleted_session_is_told_so(make_client, client, memory, clock, is_other, is_made_again):
    await start(client)
    reader = await reading(client, None, 404)
    deleting = await make_client(memory) if is_other else client
    await deleting.delete(PATH)
    clock.now += 1
    if is_made_again:
        await start(deleting)

    assert (await reader)["code"] == "unknown_session"


async def test_a_session_made_again_without_a_log_is_not_the_one_that_is_read(make_client, client, memory, clock):
    await start(client)
    reader = await reading(client, None, 404)
    other = await make_client(memory)
    await other.delete(PATH)
    clock.now += 1
    await other.post("/v1/sessions", json={"session_id": "s", "learner": {"kind": "fixed", "n_arms": 2}})

    assert (await reader)["code"] == "unknown_session"


async def test_a_stop_ends_all_waits(client):
    await start(client)
    readers = [asyncio.create_task(read(client, wait_seconds=30)) for _ in range(3)]
    await waiting(client, 3)
    logs_of(client).stop()

    assert [page["decisions"] for page in await asyncio.gather(*readers)] == [[]] * 3
    assert (await read(client, wait_seconds=30))["decisions"] == []


async def test_so_many_wait_and_no_more(make_client):
    client = await make_client(max_connections=4)
    await start(client)
    reader = asyncio.create_task(read(client, wait_seconds=30))
    await until(lambda: asyncio.sleep(0, not logs_of(client)._places))

    answer = await client.get(f"{PATH}/decisions", params={"wait_seconds": 30})

    assert (answer.status_code, answer.json()["code"]) == (503, "overloaded")
    assert answer.headers["Retry-After"]
    await act(client)
    assert positions(await reader) == [1, 2]


async def test_nobody_waits_for_a_client_that_has_left(client):
    await start(client)
    app, left, places = client._transport.app, asyncio.get_running_loop().create_future(), logs_of(client)._places
    leaving = httpx.ASGITransport(lambda scope, *io: app(scope | {"extensions": {"bandit.left": left}}, *io))
    async with httpx.AsyncClient(transport=leaving, base_url="http://service") as gone:
        reader = asyncio.create_task(gone.get(f"{PATH}/decisions", params={"wait_seconds": 30}))
        await until(lambda: asyncio.sleep(0, logs_of(client)._places < places))
        left.set_result(None)

        assert (await reader).json()["decisions"] == []
    assert logs_of(client)._places == places
