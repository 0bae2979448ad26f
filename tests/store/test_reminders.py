"""Reminders that a store keeps of due decisions, and the lease of the worker that looks at them."""

from __future__ import annotations

import asyncio

import pytest


async def test_reminders_come_when_it_is_time(store):
    now = store.now()
    await store.reminders.remind("late", now + 3600)
    await store.reminders.remind("soon", now + 3600)
    await store.reminders.remind("soon", now - 2)
    await store.reminders.remind("soon", now + 1800)

    assert await store.reminders.due(10) == ["soon"]
    await store.reminders.reschedule("soon", None)
    await store.reminders.reschedule("late", None)
    assert await store.reminders.due(10) == []
    await store.reminders.remind("late", now - 1)
    assert await store.reminders.due(10) == ["late"]
    await store.reminders.reschedule("late", now - 0.5)
    assert await store.reminders.due(10) == ["late"]
    await store.reminders.reschedule("late", None)


@pytest.mark.parametrize("store_url", ["redis", "embedded"], indirect=True)
async def test_one_worker_leads_until_its_lease_ends(store):
    assert await store.reminders.acquire_lease("a", 0.3)
    assert not await store.reminders.acquire_lease("b", 0.3)
    assert await store.reminders.acquire_lease("a", 0.01)
    while not await store.reminders.acquire_lease("b", 0.3):  # noqa: ASYNC110 - a condition in the server
        await asyncio.sleep(0)
