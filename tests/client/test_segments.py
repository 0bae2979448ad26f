"""Segments through the client: an action remembers who asked, and its reports say so."""

from __future__ import annotations

import pytest

from service.client.calls import UnknownSegmentError
from service.testing import LocalBandits
from tests.client.conftest import CLICKS


def test_reports_name_the_segment_of_their_action(bandits: LocalBandits) -> None:
    fields = CLICKS | {"segments": {"max": 10}}
    shop = bandits.sessions.ensure("shop", **fields)
    action = shop.act(segment="de")
    shop.act()
    assert shop.report(action, loss=1)
    assert bandits.flush(5)

    assert {row["segment"]: row["feedbacks"] for row in shop.segments()} == {"": 0, "de": 1}
    view = shop.view(segment="de")
    assert (view["segment"], view["slots"], view.feedbacks) == ("de", 1, 1)
    assert bandits.sessions.ensure("shop", **fields).view()["segments"] == 2
    with pytest.raises(UnknownSegmentError):
        shop.view(segment="fr")
