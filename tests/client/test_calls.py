"""Every call that acts or reports, against a service in this process."""

import json

import httpx
import numpy as np
import pytest

from service.client import InvalidRequestError, SurplusFeedbackError
from tests.client.conftest import ACTION, CLICKS, SETTLED, scripted

POINTS = {"dim": 2, "feasible_set": {"kind": "ball", "radius": 1.0}}


def test_an_action_says_what_to_show_and_its_feedback_counts_once(shop):
    action = shop.act()

    assert action.choice == action.label
    assert not action.is_fallback
    assert (shop.feedback(action, loss=1).applied, shop.feedback(action, loss=1).duplicates) == (1, 1)
    assert shop.view().feedbacks == 1


def test_an_action_for_a_visitor_with_features_is_reported_by_its_token(bandits):
    options = {"learner": {"kind": "multiscale_tsallis", "arms": ["shoes", "hat"]}, "loss_range": [1, 0], "seed": 7}
    options["features"] = {"age": {"kind": "number", "range": (18, 80)}}
    shop = bandits.sessions.ensure("shop", **options)
    first, *more = shop.act(features={"age": 30}), *shop.acts(2, features={"age": 70})

    assert bandits.sessions.ensure("shop", **options).session_id == "shop"
    assert shop.feedback(first, loss=0, features={"age": 31}).applied == 1
    assert shop.feedback(more[0].label, loss=0, slot=more[0].slot, features={"age": 70}).applied == 1
    assert shop.report(more[1], loss=0)
    assert bandits.flush(5)
    assert shop.view().feedbacks == 3
    with pytest.raises(InvalidRequestError, match=r"features\.weight"):
        shop.act(features={"weight": 3})


def test_an_action_of_a_session_with_tokens_is_reported_by_its_token(bandits):
    shop = bandits.sessions.create(**CLICKS, tokens=True)
    actions = shop.acts(4)

    assert shop.act(fallback="hat").token
    assert shop.feedback(actions[0], loss=0).applied == 1
    assert shop.feedback(token=actions[0].token, loss=0).duplicates == 1
    assert shop.feedback(token=actions[1].token, loss=0).applied == 1
    assert shop.report(actions[2], loss=0, event_id="another")
    assert shop.void(token=actions[3].token)
    assert bandits.flush(5)
    assert (shop.view().feedbacks, shop.view()["voided"], shop.view()["tokens"]) == (3, 1, True)
    assert shop.feedback(token=actions[2].token, loss=0).duplicates == 1
    with pytest.raises(InvalidRequestError, match="invalid_token"):
        shop.feedback(token="nothing", loss=0)


def test_the_group_of_an_action_goes_with_its_report():
    acted = httpx.Response(200, json=ACTION | {"group": "control"})
    bandits, script = scripted(acted, httpx.Response(200, json=SETTLED))
    action = bandits.session("shop").act(visitor="ann", fallback="hat")
    for decision, where in ((action, {}), ("hat", {"group": "learner"}), (action, {"token": "t"})):
        bandits.session("shop").feedback(decision, loss=1, **where)
    asked, *said = (json.loads(request.content) for request in script.requests)

    assert (action.group, asked) == ("control", {"visitor": "ann"})
    assert [each["events"][0].get("group") for each in said] == ["control", "learner", None]


def test_two_sessions_are_compared():
    groups = {"learner": {"acts": 5}, "control": {"acts": 6}}
    bandits, script = scripted(httpx.Response(200, json={"groups": groups}))

    assert bandits.compare("a", "b") == {"groups": groups, "verdict": None}
    assert script.requests[0].url.raw_path == b"/v1/compare?learner=a&control=b"


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


def test_points_are_lists_and_outcomes_may_be_arrays(bandits):
    tuner = bandits.sessions.create(learner={"kind": "dbgd"} | POINTS)
    action = tuner.act()
    losses = np.square(np.asarray(action.points)).sum(axis=1)

    assert losses.shape == (3,)
    assert tuner.feedback(action, losses=losses).applied == 1
    assert tuner.feedback(tuner.act(), losses=list(losses)).applied == 1
    assert tuner.void(tuner.act())
    assert tuner.report(tuner.act(), losses=losses)
    losses[:] = np.nan  # What was reported stays as it was.
    assert bandits.flush(5)
    assert (tuner.view()["voided"], bandits.reports.applied, bandits.reports.waiting) == (1, 1, 0)
    with pytest.raises(TypeError, match="point"):
        _ = action.choice
    tuner = bandits.sessions.create(learner={"kind": "ogd", "learning_rate": 0.1} | POINTS)
    assert tuner.feedback(tuner.act(), gradient=np.array([0.1, 0.2])).applied == 1


def test_slots_go_with_the_action_where_a_learner_needs_them(bandits):
    session = bandits.sessions.create(learner={"kind": "exp3", "n_arms": 3, "learning_rate": 0.1})
    first, second = session.acts(2)

    assert second.choice == second.arm
    assert (session.feedback(second, loss=0.5).applied, session.feedback(first, loss=0.5).applied) == (1, 1)


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

    assert (view.outcome_field, view.feedbacks, view["voided"], view.outstanding) == ("reward", 2, 1, 0)
    assert (bandits.reports.applied, bandits.reports.voided) == (1, 1)


def test_events_that_do_not_fit_may_be_skipped(shop):
    shown = shop.act()
    settled = shop.feedbacks(
        [{"label": "belt", "loss": 1}, {"label": shown.label, "loss": 1}], on_invalid="skip", on_surplus="skip"
    )

    assert (settled.applied, settled.invalid, settled.invalid_indexes) == (1, 1, (0,))


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
