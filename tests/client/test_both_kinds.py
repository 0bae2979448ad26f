"""The awaited client, the blocking one that is made from it, and what both say of themselves."""

import inspect
import re

import pytest

from service.client import Bandits, ReportRules, Session, Sessions
from service.testing import AsyncLocalBandits
from tests.client.conftest import CLICKS
from tests.support.blocking_client import CLIENT, made_from


def test_the_blocking_client_is_made_from_the_awaited_one():
    made = made_from((CLIENT / "awaited.py").read_text())

    assert (CLIENT / "blocking.py").read_text() == made, "run `python -m tests.support.blocking_client`"


async def test_every_awaited_method_works():
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
        options = {"decision_log": {"max_entries": 10}, "segments": {"max": 3}}
        await bandits.sessions.create("other", **CLICKS | options)
        assert [segment async for segment in bandits.session("other").segments()] == []
        assert [entry async for entry in bandits.session("other").decisions()] == []
        assert {view.session_id async for view in bandits.sessions.list(limit=1)} == {"shop", "other"}
        assert (await bandits.sessions.get("shop")).slot == (await shop.view()).slot == 11
        await shop.delete()
        await bandits.sessions.delete("other")
        assert [view async for view in bandits.sessions.list()] == []
        with bandits.outage():
            assert (await shop.act(fallback="hat")).is_fallback


METHODS = [
    pytest.param(method, id=f"{kind.__name__}.{name}")
    for kind in (Bandits, Sessions, Session)
    for name, method in vars(kind).items()
    if inspect.isfunction(method) and not name.startswith("_")
]


def described(docstring):
    """Names in the section of parameters, or of attributes."""
    section = re.search(r"(?:Parameters|Attributes)\n-+\n((?:.+\n?)+)", inspect.cleandoc(docstring))
    entries = re.findall(r"^([a-z_, ]+) : ", section[1], re.M) if section else []
    return {name for entry in entries for name in entry.split(", ")}


@pytest.mark.parametrize("method", METHODS)
def test_methods_name_every_parameter(method):
    assert described(method.__doc__) == set(inspect.signature(method).parameters) - {"self"}


@pytest.mark.parametrize("kind", [Bandits, ReportRules])
def test_classes_name_every_parameter(kind):
    assert described(kind.__doc__) == set(inspect.signature(kind).parameters)
