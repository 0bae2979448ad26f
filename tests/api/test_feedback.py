"""Feedback beside a plain loss: surplus events, ids that have counted, voids, and rewards."""

import re

import pytest

from tests.support.one_session import made, view


async def test_of_many_surplus_events_the_first_thousand_are_named_and_all_are_counted(client, create):
    path = await create()
    await client.post(f"{path}/act")

    response = await client.post(f"{path}/feedbacks", json={"events": [{"arm": 0, "loss": 0.5}] * 1030})

    assert response.status_code == 409
    assert len(response.json()["indexes"]) == 1000
    assert response.json()["indexes"] == sorted(response.json()["indexes"])
    assert re.search(r": 10\d\d of 1030; act first, or leave them out", response.json()["detail"])


async def test_more_losses_than_acts_are_refused_whole(client, create):
    path = await create(learner={"kind": "dexp3", "n_arms": 1})
    await client.post(f"{path}/acts", json={"count": 3})
    before = await view(client, path)

    refused = await client.post(f"{path}/feedbacks", json={"events": [{"arm": 0, "loss": 0.5}] * 5})
    assert (refused.status_code, refused.json()["indexes"]) == (409, [3, 4])
    assert "answer no outstanding decision: 2 of 5" in refused.json()["detail"]
    assert await view(client, path) == before
    accepted = await client.post(f"{path}/feedbacks", json={"events": [{"arm": 0, "loss": 0.5}] * 3})
    assert accepted.json() == {"applied": 3, "duplicates": 0, "slot": 3, "outstanding": 0}


async def test_surplus_can_be_skipped_and_sent_again(client, create):
    path = await create(learner={"kind": "dexp3", "n_arms": 1})
    await client.post(f"{path}/act")
    events = [{"arm": 0, "loss": 0.5, "event_id": str(number)} for number in range(3)]

    skipped = await client.post(f"{path}/feedbacks?on_surplus=skip", json={"events": events})
    await client.post(f"{path}/acts", json={"count": 2})
    again = await client.post(f"{path}/feedbacks?on_surplus=skip", json={"events": events})

    assert skipped.json() == {"applied": 1, "duplicates": 0, "slot": 1, "outstanding": 0, "surplus": 2}
    assert again.json() == {"applied": 2, "duplicates": 1, "slot": 3, "outstanding": 0, "surplus": 0}


async def test_an_event_id_counts_once_also_with_another_loss_or_after_its_decision_is_settled(client, create):
    path = await create()
    event = {"arm": (await client.post(f"{path}/act")).json()["arm"], "loss": 0.5, "event_id": "e"}

    first = await client.post(f"{path}/feedback", json=event)
    counted = await view(client, path)
    again = [await client.post(f"{path}/feedback", json=event | {"loss": loss}) for loss in (0.5, 0.9)]

    assert first.json()["applied"] == 1
    assert [answer.json() for answer in again] == [{"applied": 0, "duplicates": 1, "slot": 1, "outstanding": 0}] * 2
    assert await view(client, path) == counted


async def test_an_event_id_twice_in_a_batch_counts_once(client, create):
    path = await create(learner={"kind": "dexp3", "n_arms": 1})
    await client.post(f"{path}/acts", json={"count": 2})
    events = [{"arm": 0, "loss": 0.5, "event_id": "e"}] * 2

    settlement = await client.post(f"{path}/feedbacks", json={"events": events})

    assert settlement.json() == {"applied": 1, "duplicates": 1, "slot": 2, "outstanding": 1}


async def test_an_id_whose_first_event_is_skipped_counts_with_its_second(client, create):
    path = await create(learner={"kind": "dexp3", "n_arms": 2})
    acted = (await client.post(f"{path}/act")).json()["arm"]
    events = [{"arm": arm, "loss": 0.3, "event_id": "click"} for arm in (1 - acted, acted, acted)]

    first = await client.post(f"{path}/feedbacks?on_surplus=skip", json={"events": events})
    again = await client.post(f"{path}/feedbacks?on_surplus=skip", json={"events": events})

    assert first.json() == {"applied": 1, "duplicates": 1, "surplus": 1, "slot": 1, "outstanding": 0}
    assert again.json() == {"applied": 0, "duplicates": 3, "surplus": 0, "slot": 1, "outstanding": 0}


UNIT_BALL = {"kind": "ball", "radius": 1.0}


POINTS = {"dbgd": "losses", "ogd": "gradient"}


async def counts(client, path):
    view = (await client.get(path)).json()
    names = ("feedbacks", "expired", "removed", "voided", "outstanding")
    assert view["slot"] == sum(view[name] for name in names)
    return tuple(view[name] for name in names)


async def test_a_void_ends_the_oldest_decision_of_its_arm_unlearned(client, create):
    path = await create(learner={"kind": "centred_tsallis", "n_arms": 1})
    await client.post(f"{path}/acts", json={"count": 3})
    events = [{"arm": 0, "loss": None, "event_id": "e"}, {"arm": 0, "loss": 0.5}, {"arm": 0, "loss": None}]

    settled = (await client.post(f"{path}/feedbacks", json={"events": events[:2]})).json()
    again = (await client.post(f"{path}/feedback", json=events[0])).json()
    await client.post(f"{path}/feedback", json=events[2])
    surplus = await client.post(f"{path}/feedback", json=events[2])

    assert settled == {"applied": 1, "duplicates": 0, "voided": 1, "slot": 3, "outstanding": 1}
    assert (again["duplicates"], again.get("voided")) == (1, None)
    assert (surplus.status_code, surplus.json()["code"]) == (409, "surplus_feedback")
    assert await counts(client, path) == (1, 0, 0, 2, 0)


async def test_a_void_leaves_what_was_learned_and_is_no_mean(client, create):
    path = await create(learner={"kind": "centred_tsallis", "n_arms": 2})
    for loss in (0.0, 1.0):
        arm = (await client.post(f"{path}/act")).json()["arm"]
        await client.post(f"{path}/feedback", json={"arm": arm, "loss": loss})
    arm = (await client.post(f"{path}/act")).json()["arm"]
    before = (await client.get(path)).json()

    await client.post(f"{path}/feedback", json={"arm": arm, "loss": None})

    after = (await client.get(path)).json()
    assert (after["mean_loss"], after["probabilities"]) == (before["mean_loss"], before["probabilities"])


async def test_where_slots_matter_a_void_ends_the_decision_of_its_slot(client, create):
    path = await create(learner={"kind": "exp3", "n_arms": 1, "learning_rate": 0.1})
    await client.post(f"{path}/acts", json={"count": 2})

    nameless = await client.post(f"{path}/feedback", json={"arm": 0, "loss": None})
    await client.post(f"{path}/feedback", json={"arm": 0, "loss": None, "slot": 2})
    again = await client.post(f"{path}/feedback", json={"arm": 0, "loss": 0.5, "slot": 2})
    other = await client.post(f"{path}/feedback", json={"arm": 0, "loss": 0.5, "slot": 1})

    assert (nameless.status_code, again.status_code, other.status_code) == (422, 409, 200)
    assert await counts(client, path) == (1, 0, 0, 1, 0)


@pytest.mark.parametrize("kind", POINTS)
async def test_points_take_voids(client, create, kind):
    rates = {"learning_rate": 0.1} | ({"perturbation": 0.1} if kind == "dbgd" else {})
    path = await create(learner={"kind": kind, "dim": 2, "feasible_set": UNIT_BALL} | rates)
    x = (await client.post(f"{path}/act")).json()["x"]

    assert (await client.post(f"{path}/feedback", json={POINTS[kind]: None})).json()["voided"] == 1
    assert await counts(client, path) == (0, 0, 0, 1, 0)
    assert (await client.get(path)).json()["x"] == x


async def test_voids_and_expiry_share_the_decisions(client, clock, create):
    learner = {"kind": "centred_tsallis", "n_arms": 1}
    await create(session_id="s", learner=learner, expiry={"after_seconds": 64, "default_loss": 1})
    await client.post("/v1/sessions/s/acts", json={"count": 3})
    await client.post("/v1/sessions/s/feedback", json={"arm": 0, "loss": None})

    clock.now += 70

    assert await counts(client, "/v1/sessions/s") == (0, 2, 0, 1, 0)


async def test_events_that_do_not_fit_are_skipped_on_request_and_can_be_sent_again(client, create):
    path = await create(learner={"kind": "dexp3", "arms": ["a"]})
    await client.post(f"{path}/acts", json={"count": 2})
    events = [
        {"label": "b", "loss": 0.5, "event_id": "1"},
        {"label": "a", "loss": 2, "event_id": "2"},
        {"label": "a", "loss": 0.5, "event_id": "3"},
        {"gradient": [1], "event_id": "4"},
    ]

    refused = await client.post(f"{path}/feedbacks", json={"events": events})
    skipped = await client.post(f"{path}/feedbacks?on_invalid=skip", json={"events": events})
    again = await client.post(f"{path}/feedback", json={"label": "a", "loss": 1, "event_id": "2"})
    none = await client.post(f"{path}/feedbacks?on_invalid=skip", json={"events": events[2:3]})
    misspelt = await client.post(f"{path}/feedbacks?on_invalid=ignore", json={"events": events})

    assert (refused.status_code, refused.json()["indexes"]) == (422, [0, 1, 3])
    expected = {"applied": 1, "duplicates": 0, "invalid": 3, "invalid_indexes": [0, 1, 3], "slot": 2}
    assert skipped.json() == expected | {"outstanding": 1}
    assert again.json()["applied"] == 1
    assert (none.json()["invalid"], none.json()["invalid_indexes"]) == (0, [])
    assert misspelt.status_code == 422


WRONG = [
    {"arm": 0, "loss": 0.5, "colour": "red"},
    {"arm": 0, "loss": "1"},
    {"label": 1, "loss": 0.5},
    None,
    [],
    {"arm": 0},
    {"arm": 0, "losses": [0.5] * 2000},
    {"arm": 0, "void": 1},
    {"arm": 0, "void": True, "loss": 0.5},
]


@pytest.mark.parametrize("size", [20, 3000])
async def test_every_wrong_event_is_skipped_on_request(client, create, size):
    path = await create(learner={"kind": "dexp3", "n_arms": 1})
    await client.post(f"{path}/acts", json={"count": 1000})
    right = [{"arm": 0, "loss": 0.5, "event_id": f"e{n}" * 3} for n in range(size - 1)]
    events = [*right, {"arm": 0, "void": True}]
    for place, wrong in zip(range(0, size, 2), WRONG, strict=False):
        events[place] = wrong
    places = list(range(0, 2 * len(WRONG), 2))

    assert (await client.post(f"{path}/feedbacks", json={"events": events})).status_code == 422
    whole = {"content": b'{"events": 5}', "headers": {"Content-Type": "application/json"}}
    for body in (b"no json", b'{"events": 5}', b'{"events": []}', b'{"events": [1], "more": 1}'):
        whole["content"] = body
        assert (await client.post(f"{path}/feedbacks?on_invalid=skip", **whole)).status_code == 422
    headers = {"Idempotency-Key": "k"}
    for more in ({}, {"headers": headers}):
        skip = f"{path}/feedbacks?on_invalid=skip&on_surplus=skip"
        answer = await client.post(skip, json={"events": events}, **more)
        found = answer.json()
        assert (answer.status_code, found["invalid"], found["invalid_indexes"]) == (200, len(WRONG), places)
    assert found["duplicates"] == min(size - len(WRONG) - 1, 1000)


async def test_up_to_a_thousand_indexes_are_named_in_less_than_ten_kilobytes(client, create):
    path = await create()
    bad = {"arm": 0, "loss": 2, "event_id": "x" * 100}

    for events in ([bad] * 1500, [{"label": "\u00e9" * 500, "loss": 1}] * 1500, [{"loss": "x"}] * 1500):
        refused = await client.post(f"{path}/feedbacks", json={"events": events})
        assert refused.json()["indexes"] == list(range(1000))
        assert refused.json()["errors"]
        assert len(refused.content) < 10_000
    skipped = await client.post(f"{path}/feedbacks?on_invalid=skip", json={"events": [bad] * 1500})

    assert (skipped.json()["invalid"], skipped.json()["invalid_indexes"]) == (1500, list(range(1000)))


LEARNER = {"kind": "centred_tsallis", "arms": ["a", "b"]}


async def created(client, session_id, **fields):
    await made(client, **{"session_id": session_id, "learner": LEARNER, "seed": 3} | fields)
    return f"/v1/sessions/{session_id}"


async def test_rewards_are_learned_as_losses_with_the_range_turned_round(client):
    expiry = {"after_seconds": 60}
    reward = await created(client, "r", reward_range=[-10, 10], expiry=expiry | {"default_reward": 3.3})
    loss = await created(client, "l", loss_range=[10, -10], expiry=expiry | {"default_loss": 3.3})

    for number in (3.3, -7, 10, 0):
        arm = (await client.post(f"{reward}/act")).json()["arm"]
        assert (await client.post(f"{loss}/act")).json()["arm"] == arm
        assert (await client.post(f"{reward}/feedback", json={"arm": arm, "reward": number})).status_code == 200
        assert (await client.post(f"{loss}/feedback", json={"arm": arm, "loss": number})).status_code == 200

    of_rewards, of_losses = (await client.get(reward)).json(), (await client.get(loss)).json()
    assert of_rewards["probabilities"] == of_losses["probabilities"]
    assert (of_rewards["reward_range"], of_rewards["expiry"]["default_reward"]) == ([-10, 10], 3.3)
    assert of_rewards["mean_reward"] == of_losses["mean_loss"] == 1.575
    assert not {"loss_range", "mean_loss"} & of_rewards.keys()
    assert "default_loss" not in of_rewards["expiry"]
    assert not {"reward_range", "mean_reward"} & of_losses.keys()


async def test_the_other_word_is_refused_with_the_word_that_the_session_uses(client):
    reward = await created(client, "r", reward_range=[0, 1])
    loss = await created(client, "l")
    await client.post(f"{reward}/act")
    await client.post(f"{loss}/act")

    for path, field, other in ((reward, "loss", "reward"), (loss, "reward", "loss")):
        for value in (1, None):
            response = await client.post(f"{path}/feedback", json={"arm": 0, field: value})
            assert (response.status_code, response.json()["errors"][0]["field"]) == (422, field)
            assert f"post {other}, or create a session with {field}_range" in response.json()["detail"]
    outside = await client.post(f"{reward}/feedback", json={"label": "a", "reward": 2})
    assert outside.json()["errors"][0]["message"] == "reward must lie in [0.0, 1.0]"


@pytest.mark.parametrize(("first", "second"), [("loss", "reward"), ("reward", "loss")])
async def test_posting_a_session_again_with_the_other_word_names_it(client, first, second):
    ranges = {"loss": [1, 0], "reward": [0, 1]}
    await created(client, "s", **{f"{first}_range": ranges[first]})
    body = {"session_id": "s", "learner": LEARNER, "seed": 3}

    again = await client.post("/v1/sessions", json=body | {f"{first}_range": ranges[first]})
    other = await client.post("/v1/sessions", json=body | {f"{second}_range": ranges[second]})

    assert again.status_code == 200
    assert (other.status_code, other.json()["code"]) == (409, "session_exists")
    assert [error["field"] for error in other.json()["errors"]] == [f"{second}_range"]
    assert f"{first}_range" in other.json()["errors"][0]["message"]


async def test_posting_a_session_again_names_each_field_that_differs(client):
    await created(client, "s", idle_ttl_seconds=60)
    expiry = {"after_seconds": 1, "default_loss": 1}
    body = {"session_id": "s", "learner": LEARNER | {"tracking": True}, "seed": 4, "expiry": expiry}

    response = await client.post("/v1/sessions", json=body)

    differing = ["expiry", "idle_ttl_seconds", "learner", "seed"]
    assert sorted(error["field"] for error in response.json()["errors"]) == differing
    detail = response.json()["detail"]
    assert "it differs in idle_ttl_seconds, expiry, learner.tracking, seed. PATCH the session" in detail
    assert "to change expiry, idle_ttl_seconds, floor or goals" in detail
    assert detail.endswith("or choose another session_id")
    assert "3" not in response.text.replace('"status": 409', "").split("seed")[-1]


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"reward_range": [1, 1]}, "reward_range"),
        ({"reward_range": [0, 1], "loss_range": [1, 0]}, "reward_range"),
        ({"reward_range": [0, 1], "loss_range": [0, 1]}, "reward_range"),
        ({"reward_range": [0, 1], "normalize_losses": False}, "reward_range"),
        ({"reward_range": [0, 1], "expiry": {"after_seconds": 1, "default_loss": 0}}, "default_loss"),
        ({"expiry": {"after_seconds": 1, "default_reward": 0}}, "default_reward"),
        ({"reward_range": [0, 1], "expiry": {"after_seconds": 1, "default_reward": 2}}, "default_reward"),
        ({"reward_range": [0, 1], "learner": {"kind": "ogd", "dim": 1, "learning_rate": 0.1}}, "learner"),
    ],
)
async def test_words_that_do_not_go_together_are_refused(client, fields, named):
    response = await client.post("/v1/sessions", json={"learner": LEARNER} | fields)

    assert response.status_code == 422
    assert named in response.json()["detail"]
