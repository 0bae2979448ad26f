"""Every call that makes, shows, changes or lists sessions, against a service in this process."""

import httpx
import pytest

from service.client import (
    NoAnswerError,
    NotFoundError,
    SessionExistsError,
    UnknownSegmentError,
    UnknownSessionError,
)
from tests.client.conftest import CLICKS, scripted


def test_sessions_are_created_viewed_listed_and_deleted(bandits):
    for number in range(5):
        bandits.sessions.create(f"s{number}", **CLICKS)

    assert sorted(view.session_id for view in bandits.sessions.list(limit=2)) == [f"s{n}" for n in range(5)]
    view = bandits.sessions.get("s1")
    assert view.arms == ["shoes", "hat", "scarf"]
    assert (view.slot, view["loss_range"], view.outcome_field) == (0, [1.0, 0.0], "loss")
    bandits.sessions.delete("s1")
    with pytest.raises(UnknownSessionError) as raised:
        bandits.sessions.get("s1")
    assert isinstance(raised.value, NotFoundError)
    assert (raised.value.status, raised.value.code) == (404, "unknown_session")
    assert raised.value.request_id


def test_ensure_creates_once_and_takes_what_is_there(bandits):
    for _ in range(2):
        assert bandits.sessions.ensure("shop", **CLICKS).view().arms == ["shoes", "hat", "scarf"]
    with pytest.raises(SessionExistsError):
        bandits.sessions.ensure("shop", **CLICKS | {"loss_range": [0, 1]})
    with pytest.raises(SessionExistsError):
        bandits.sessions.ensure("shop", **CLICKS | {"learner": {"kind": "dexp3", "n_arms": 3}})


def test_ensure_brings_arms_in_line(bandits):
    bandits.sessions.ensure("shop", **CLICKS)
    changed = CLICKS | {"learner": CLICKS["learner"] | {"arms": ["scarf", "belt"]}}
    for _ in range(2):
        assert bandits.sessions.ensure("shop", **changed).view().arms == ["scarf", "belt"]
    assert sorted(bandits.sessions.ensure("shop", **CLICKS).view().arms) == ["hat", "scarf", "shoes"]
    with pytest.raises(SessionExistsError):
        bandits.sessions.ensure("shop", **changed | {"loss_range": [0, 1]})


def test_ensure_brings_options_in_line(bandits):
    fields = {"learner": CLICKS["learner"], "reward_range": [0, 1]}
    shop = bandits.sessions.ensure("shop", **fields)
    for seconds in (60, 90):
        expiry = {"after_seconds": seconds, "default_reward": 0}
        view = bandits.sessions.ensure("shop", **fields, expiry=expiry, floor=0.1).view()
        assert (view["expiry"], view["floor"]) == (expiry, 0.1)
        assert bandits.sessions.ensure("shop", **fields).view().version == view.version
    assert bandits.sessions.ensure("shop", **fields, expiry=None).view()["expiry"] is None
    assert shop.update(idle_ttl_seconds=100)["idle_ttl_seconds"] == 100


def test_events_are_improved_and_goals_named(bandits):
    fields = {"learner": {"kind": "fixed", "arms": ["a", "b"]}, "reward_range": [0, 1]}
    fields |= {"updates": {"within_seconds": 60}, "goals": {"click": 0.5, "purchase": 1}}
    shop = bandits.sessions.ensure("shop", **fields)
    action = shop.act()

    assert shop.feedback(action, goal="click").applied == 1
    assert shop.feedback(action, goal="purchase").updated == 1
    assert shop.feedback(action, goal="click").duplicates == 1
    assert shop.report(shop.act(), goal="click")
    assert bandits.flush(5)
    assert bandits.sessions.ensure("shop", **fields).view().version == shop.view().version
    changed = bandits.sessions.ensure("shop", **fields | {"goals": {"click": 0.25, "visit": 0.125}}).view()
    assert changed["goals"] == {"visit": {"value": 0.125, "events": 0}, "click": {"value": 0.25, "events": 2}}
    with pytest.raises(SessionExistsError):
        bandits.sessions.ensure("shop", **fields | {"updates": {"within_seconds": 61}})


def test_a_control_group_is_brought_in_line_compared_halted_and_let_go_on(bandits):
    fields = CLICKS | {"control": {"share": 0.5}, "guard": {"tolerance": 0.05}}
    shop = bandits.sessions.ensure("shop", **fields)
    assert len({shop.act(visitor="ann").group for _ in range(5)}) == 1
    for action in shop.acts(300):
        assert shop.report(action, loss=int(action.group == "control"))
    assert bandits.flush(5)
    view = shop.view()

    assert sum(group["events"] for group in view.groups.values()) == 300
    assert (view.verdict["is"], view.leader["clear"], bool(view.halted_at)) == ("worse", False, True)
    assert shop.update(halted=False).halted_at is None
    changed = bandits.sessions.ensure("shop", **fields | {"control": {"share": 0.1}}).view()
    assert changed["control"] == {"share": 0.1}
    assert bandits.compare("shop", "shop")["groups"]["learner"]["acts"] == changed.slot
    shop.change_arms(add=["belt"], remove=["hat"])
    assert [arm["label"] for arm in shop.arms(removed=True) if arm.get("removed")] == ["hat"]


@pytest.mark.parametrize("first", [{"n_arms": 3}, {"arms": ["a", "b", "c"]}])
def test_ensure_takes_no_session_with_other_arms_than_it_can_bring_in_line(bandits, first):
    bandits.sessions.ensure("s", learner={"kind": "dexp3", **first})
    others = [{"n_arms": 4}, {"arms": ["a", "b"]} if "n_arms" in first else {"n_arms": 3}]
    for other in others:
        with pytest.raises(SessionExistsError):
            bandits.sessions.ensure("s", learner={"kind": "dexp3", **other})


def test_ensure_leaves_what_is_not_named(bandits):
    bandits.sessions.ensure("shop", **CLICKS | {"learner": CLICKS["learner"] | {"tracking": True}})

    assert bandits.sessions.ensure("shop", **CLICKS).view().learner["tracking"] is True
    with pytest.raises(SessionExistsError):
        bandits.sessions.ensure("shop", **CLICKS | {"seed": 8})
    with pytest.raises(SessionExistsError):
        bandits.sessions.ensure("shop", **CLICKS | {"learner": CLICKS["learner"] | {"tracking": False}})


def test_arms_are_exchanged_paused_and_resumed(shop):
    assert shop.set_arms(["shoes", "belt"]).arms == ["shoes", "belt"]
    assert shop.change_arms(pause=["belt"])["paused"] == ["belt"]
    assert {shop.act().label for _ in range(10)} == {"shoes"}
    assert shop.change_arms(resume=["belt"])["paused"] == []
    assert shop.change_arms(add=["scarf"], remove=["belt"]).arms == ["shoes", "scarf"]


def test_arms_and_decisions_are_gone_through_page_by_page(bandits):
    shop = bandits.sessions.create("shop", **CLICKS | {"decision_log": {"max_entries": 1000}})
    for action in shop.acts(3):
        shop.feedback(action, loss=1)

    assert [each["label"] for each in shop.arms(limit=2)] == ["shoes", "hat", "scarf"]
    assert sum(each["acts"] for each in shop.arms(sort="-acts")) == 3
    assert [each["kind"] for each in shop.decisions(limit=2)].count("act") == 3


def test_an_action_remembers_its_segment_and_its_reports_name_it(bandits):
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


def test_a_session_that_the_service_can_not_read_is_listed_with_its_code():
    row = {"session_id": "s", "code": "newer_schema"}
    bandits, _ = scripted(httpx.Response(200, json={"sessions": [row], "next_cursor": None}))

    (view,) = bandits.sessions.list()

    assert (view.session_id, view["code"], view.learner, view.slot) == ("s", "newer_schema", {}, 0)


def test_a_log_is_followed_from_page_to_page_and_through_an_outage(bandits):
    shop = bandits.sessions.create("shop", **CLICKS | {"decision_log": {"max_entries": 8}})
    shop.acts(2)
    followed = shop.follow(wait_seconds=0.01, limit=2)
    page = next(followed)
    assert [each["position"] for each in page["decisions"]] == [1, 2]
    shop.acts(8)
    missed = next(followed)
    assert (missed["missed"], [each["position"] for each in missed["decisions"]]) == (True, [7, 8])

    with bandits.outage(), pytest.raises(NoAnswerError):
        next(followed)
    page = next(shop.follow(missed["cursor"], wait_seconds=0.01))
    assert [each["position"] for each in page["decisions"]] == [9, 10, 11, 12, 13, 14]
    bandits.sessions.delete("shop")
    with pytest.raises(UnknownSessionError):
        next(shop.follow(page["cursor"]))


def test_a_call_that_waits_has_time_for_it():
    asked = []

    def answered(request):
        asked.append((dict(request.url.params), request.extensions["timeout"].get("read")))
        return httpx.Response(200, json={"decisions": [{}], "next_cursor": None, "cursor": "1-1"})

    bandits, _ = scripted(answered, timeout=2.0)
    followed = bandits.session("s").follow(wait_seconds=30)
    for _ in range(2):
        next(followed)

    queries, seconds = zip(*asked, strict=True)
    assert queries[0] == {"wait_seconds": "30", "limit": "1000"}
    assert queries[1] == queries[0] | {"cursor": "1-1"}
    assert min(seconds) > 30
