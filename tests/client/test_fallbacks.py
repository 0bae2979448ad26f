"""A fallback is returned in place of every error."""

import httpx
import pytest

from service.client import BanditsError, ClosedError
from tests.client.conftest import ACTED, AWAY, BUSY, problem, scripted

pytestmark = pytest.mark.usefixtures("short_pauses")

FAILURES = [
    AWAY,
    RuntimeError("Event loop is closed"),
    BUSY,
    problem(404, "unknown_session"),
    problem(401, "unauthorized"),
    httpx.Response(200, text="<html>"),
]


@pytest.mark.parametrize("failure", FAILURES)
def test_a_fallback_is_returned_in_place_of_every_error(failure):
    bandits, script = scripted(failure)
    session = bandits.session("s")
    action = session.act(fallback="hat", segment="de")

    assert (action.choice, action.is_fallback, action.segment) == ("hat", True, "de")
    assert isinstance(action.error, BanditsError)
    assert [each.choice for each in session.acts(2, fallback=["hat", "shoes", "belt"])] == ["hat", "shoes"]
    assert session.act(fallback=1).choice == 1
    assert session.act(fallback=[0.5, 0.25]).x == [0.5, 0.25]
    sent = len(script.requests)
    assert session.feedback(action, loss=1).fallbacks == 1
    assert not session.report(action, loss=1)
    assert not session.report("hat", loss=1, event_id=action.event_id)
    assert not session.void(action)
    assert (bandits.reports.fallbacks, len(script.requests)) == (3, sent)


def test_a_fallback_is_returned_for_what_can_not_be_asked():
    bandits, _ = scripted(ACTED)
    session = bandits.session("s")

    assert session.act(fallback="hat", eligible=[float("nan")]).is_fallback
    bandits.close()
    assert session.act(fallback="hat").is_fallback
    with pytest.raises(ClosedError):
        session.act()


def test_a_fallback_that_is_none_is_refused_while_all_is_well():
    bandits, _ = scripted(ACTED)

    with pytest.raises(TypeError):
        bandits.session("s").act(fallback=object())
