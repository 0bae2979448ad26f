"""The awaited client has the methods of the blocking one."""

import inspect
from functools import wraps

import pytest

from service.client import AsyncBandits, AsyncSession, AsyncSessions, Bandits, Session, Sessions
from service.testing import AsyncLocalBandits
from tests.client.conftest import CLICKS

KINDS = [(Bandits, AsyncBandits), (Sessions, AsyncSessions), (Session, AsyncSession)]
NOT_AWAITED = {"report", "void", "session", "reports", "list", "arms", "segments", "decisions"}


def methods(kind):
    return {name: each for name, each in vars(kind).items() if not name.startswith("_")}


def noting(method, name, called):
    """The same method, or property, which adds its name to ``called``."""
    if isinstance(method, property):
        return property(noting(method.fget, name, called))

    @wraps(method)
    def call(*args, **options):
        called.add(name)
        return method(*args, **options)

    return call


@pytest.fixture
def called(monkeypatch):
    """Names of the awaited methods that the test has called."""
    names = set()
    for _, kind in KINDS:
        for name, method in methods(kind).items():
            monkeypatch.setattr(kind, name, noting(method, f"{kind.__name__}.{name}", names))
    return names


@pytest.mark.parametrize(("blocking", "awaited"), KINDS)
def test_methods_take_and_say_the_same(blocking, awaited):
    one, other = methods(blocking), methods(awaited)

    assert one.keys() == other.keys()
    for name in one.keys() - {"reports"}:
        assert inspect.signature(one[name]).parameters == inspect.signature(other[name]).parameters, name
        assert one[name].__doc__ == other[name].__doc__, name
        assert inspect.iscoroutinefunction(other[name]) is (name not in NOT_AWAITED), name


async def test_every_awaited_method_works(called):
    async with AsyncLocalBandits() as bandits:
        shop = await bandits.sessions.ensure("shop", **CLICKS)
        action, *_ = [await shop.act(), *await shop.acts(9)]
        assert shop.report(action, loss=1)
        assert await bandits.flush(5)
        assert bandits.reports.applied == 1
        assert (await shop.feedback(action, loss=1)).duplicates == 1
        assert (await shop.change_arms(add=["belt"])).arms[-1] == "belt"
        assert (await shop.set_arms(["shoes", "hat"])).arms == ["shoes", "hat"]
        assert [arm["label"] async for arm in shop.arms(sort="index")] == ["shoes", "hat"]
        assert shop.void(await shop.act())
        assert await bandits.flush(5)
        assert bandits.reports.voided == 1
        assert (await shop.update(floor=0.1)).fields["floor"] == 0.1
        await bandits.sessions.create(
            "other", **CLICKS | {"decision_log": {"max_entries": 10}, "segments": {"max": 3}}
        )
        assert [segment async for segment in bandits.session("other").segments()] == []
        assert [entry async for entry in bandits.session("other").decisions()] == []
        assert {view.session_id async for view in bandits.sessions.list(limit=1)} == {"shop", "other"}
        assert (await bandits.sessions.get("shop")).slot == (await shop.view()).slot == 11
        await shop.delete()
        await bandits.sessions.delete("other")
        assert [view async for view in bandits.sessions.list()] == []
        with bandits.outage():
            assert (await shop.act(fallback="hat")).is_fallback

    every = {f"{kind.__name__}.{name}" for _, kind in KINDS for name in methods(kind)}
    assert called == every, f"call these above too: {every - called}"
