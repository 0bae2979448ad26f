"""Requests that are plain, odd and wrong get the answers that were recorded, byte for byte."""

from __future__ import annotations

import pytest

from tests.support.recorded_answers import SESSIONS, one_session, recorded, with_keys


@pytest.mark.parametrize(
    "session",
    ["hot", *(pytest.param(name, marks=pytest.mark.slow) for name in [*SESSIONS, "keys"] if name != "hot")],
)
async def test_every_request_gets_the_recorded_answer(session):
    before = recorded()[session]
    now = await (with_keys() if session == "keys" else one_session(session))

    assert len(now) == len(before) > 500
    assert [(was, found) for was, found in zip(before, now, strict=True) if was != found] == []
