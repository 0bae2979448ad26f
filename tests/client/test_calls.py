"""Every call against a service in this process."""

import numpy as np
import pytest

from service.client import (
    InvalidRequestError,
    NotFoundError,
    SessionExistsError,
    SurplusFeedbackError,
    UnknownSessionError,
)
from tests.client.conftest import CLICKS


@pytest.fixture
def shop(bandits):
    return bandits.sessions.create("shop", **CLICKS)


def test_an_action_says_what_to_show_and_its_feedback_counts_once(shop):
    action = shop.act()

    assert action.choice == action.label
    assert not action.is_fallback
    assert shop.feedback(action, loss=1).applied == 1
    assert shop.feedback(action, loss=1).duplicates == 1
    assert shop.view().feedbacks == 1


def test_several_actions_come_in_one_call(shop):
    assert [each.slot for each in shop.acts(3)] == [1, 2, 3]


def test_an_arm_may_be_named_by_label_or_index(bandits):
    shop = bandits.sessions.create(**CLICKS)
    shop.acts(20)

    assert shop.feedback("shoes", loss=0).applied == 1
    assert shop.feedback(1, loss=0, event_id="click-1").applied == 1
    assert shop.feedback(np.int64(2), loss=np.float32(0.5)).applied == 1


def test_the_same_idempotency_key_gives_the_same_action_and_event_id(shop):
    assert shop.act(idempotency_key="visitor-1") == shop.act(idempotency_key="visitor-1")
    assert shop.act(idempotency_key="visitor-2").slot == 2


def test_eligible_arms_may_be_named(shop):
    assert {shop.act(eligible=["hat", "scarf"]).label for _ in range(10)} <= {"hat", "scarf"}
    assert {shop.act(exclude=["hat", "scarf"]).label for _ in range(10)} == {"shoes"}


def test_points_are_lists_and_losses_may_be_arrays(bandits):
    tuner = bandits.sessions.create(
        learner={"kind": "dbgd", "dim": 2, "feasible_set": {"kind": "ball", "radius": 1.0}}
    )
    action = tuner.act()
    losses = np.square(np.asarray(action.points)).sum(axis=1)

    assert losses.shape == (3,)
    assert tuner.feedback(action, losses=losses).applied == 1
    assert tuner.feedback(tuner.act(), losses=list(losses)).applied == 1
    with pytest.raises(TypeError, match="point"):
        _ = action.choice


def test_gradients_may_be_arrays(bandits):
    tuner = bandits.sessions.create(
        learner={"kind": "ogd", "dim": 2, "learning_rate": 0.1, "feasible_set": {"kind": "ball", "radius": 1.0}}
    )

    assert tuner.feedback(tuner.act(), gradient=np.array([0.1, 0.2])).applied == 1


def test_slots_go_with_the_action_where_a_learner_needs_them(bandits):
    session = bandits.sessions.create(learner={"kind": "exp3", "n_arms": 3, "learning_rate": 0.1})
    first, second = session.acts(2)

    assert second.choice == second.arm
    assert session.feedback(second, loss=0.5).applied == 1
    assert session.feedback(first, loss=0.5).applied == 1


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


def test_arms_are_changed(shop):
    assert shop.change_arms(add=["belt"], remove=["hat"]).arms == ["shoes", "scarf", "belt"]


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


def test_several_actions_may_be_distinct(shop):
    shown = shop.acts(5, distinct=True)

    assert {each.label for each in shown} == {"shoes", "hat", "scarf"}
    assert len(shown) == 3


def test_rewards_are_reported_by_their_name(bandits):
    shop = bandits.sessions.create(learner=CLICKS["learner"], reward_range=[0, 1])
    first, second, third = shop.acts(3)
    assert shop.feedback(first, reward=1).applied == 1
    assert shop.report(second, reward=0)
    assert shop.void(third)
    assert bandits.flush(5)
    view = shop.view()

    assert view.outcome_field == "reward"
    assert (view.feedbacks, view["voided"], view.outstanding) == (2, 1, 0)
    assert (bandits.reports.applied, bandits.reports.voided) == (1, 1)


def test_a_decision_over_points_is_voided_too(bandits):
    tuner = bandits.sessions.create(
        learner={"kind": "dbgd", "dim": 1, "feasible_set": {"kind": "ball", "radius": 1.0}}
    )
    assert tuner.void(tuner.act())
    bandits.flush(5)

    assert tuner.view()["voided"] == 1


def test_events_that_do_not_fit_may_be_skipped(shop):
    shown = shop.act()
    settled = shop.feedbacks(
        [{"label": "belt", "loss": 1}, {"label": shown.label, "loss": 1}], on_invalid="skip", on_surplus="skip"
    )

    assert (settled.applied, settled.invalid, settled.invalid_indexes) == (1, 1, (0,))


def test_arms_and_decisions_are_gone_through_page_by_page(bandits):
    shop = bandits.sessions.create("shop", **CLICKS | {"decision_log": {"max_entries": 1000}})
    for action in shop.acts(3):
        shop.feedback(action, loss=1)

    assert [each["label"] for each in shop.arms(limit=2)] == ["shoes", "hat", "scarf"]
    assert sum(each["acts"] for each in shop.arms(sort="-acts")) == 3
    assert [each["kind"] for each in shop.decisions(limit=2)].count("act") == 3


def test_refusals_say_which_event_was_wrong(shop):
    shop.acts(2)

    with pytest.raises(InvalidRequestError) as raised:
        shop.feedbacks([{"label": "shoes", "loss": 7}])
    assert raised.value.indexes == [0]
    with pytest.raises(SurplusFeedbackError):
        shop.feedbacks([{"label": "hat", "loss": 1}] * 3)
    assert shop.feedbacks([{"label": "hat", "loss": 1}] * 3, on_surplus="skip").surplus >= 1


@pytest.mark.parametrize("outcome", [{}, {"loss": 1, "reward": 1}, {"losses": [1], "gradient": [1]}, {"lost": 1}])
def test_an_event_has_one_outcome(shop, outcome):
    with pytest.raises(TypeError, match="exactly one"):
        shop.feedback("hat", **outcome)


@pytest.mark.parametrize("loss", [float("nan"), float("inf"), object()])
def test_what_json_can_not_say_is_refused_here(shop, loss):
    with pytest.raises((TypeError, ValueError)):
        shop.report("hat", loss=loss)


@pytest.mark.parametrize("session_id", ["", "a/b", "..", "ü", "a" * 129, None, 7])
def test_what_is_no_session_id_is_refused_here(bandits, session_id):
    with pytest.raises(ValueError, match="session_id"):
        bandits.session(session_id)
