"""Acts that name the arms they may draw, and sessions whose arms are paused or have a floor."""

import asyncio
from itertools import pairwise

import pytest

from service.engine.ledger import ArmFeedback, Params
from service.engine.run import start_run
from service.learners import REGISTRY
from service.models.events import MAX_NAMES
from tests.support.one_session import ARMS, KINDS, PATH, TAKES, act, acts, change, replace, session, view


@pytest.mark.parametrize("kind", TAKES)
async def test_an_arm_alone_has_probability_one_to_the_last_digit(client, kind):
    await session(client, kind=kind, floor=0.1)
    for _ in range(20):
        slate = (await acts(client, count=4, distinct=True))["actions"]
        assert slate[-1]["probability"] == 1
        events = [{"arm": each["arm"], "slot": each["slot"], "loss": 0.2 + 0.2 * each["arm"]} for each in slate]
        await client.post(f"{PATH}/feedbacks", json={"events": events})


@pytest.mark.parametrize("kind", TAKES)
async def test_the_numbers_are_those_of_the_run_in_process(client, kind):
    """Labels, indexes, eligible and exclude name the same arms."""
    await session(client, kind=kind)
    spec = REGISTRY[kind].model_validate({"kind": kind, "arms": ARMS} | KINDS[kind])
    run = start_run(Params(spec, 7))
    bodies = [
        ({"eligible": ["b", "d"]}, [1, 3]),
        ({"eligible": [3, 1, 1]}, [1, 3]),
        ({"exclude": ["a", "c", "a"]}, [1, 3]),
        ({"exclude": [0]}, [1, 2, 3]),
        ({"exclude": []}, [0, 1, 2, 3]),
        ({}, [0, 1, 2, 3]),
        ({"eligible": None, "exclude": None}, [0, 1, 2, 3]),
    ]
    for number in range(21):
        body, arms = bodies[number % len(bodies)]
        action = await act(client, **body)
        own = run.act(run.arms.find(arms)[0])
        assert (action["slot"], action["arm"], action["probability"]) == own[:3]
        assert action.keys() == {"slot", "arm", "probability", "label"}
        assert own.eligible == len(arms)
        assert action["arm"] in arms


async def test_every_name_is_drawn_of_those_that_may_be(client):
    await session(client, arms=5)

    seen = {(await act(client, eligible=[1, 4]))["arm"] for _ in range(30)}
    actions = (await acts(client, count=60, exclude=[0, 2]))["actions"]

    assert seen == {1, 4}
    assert {action["arm"] for action in actions} == {1, 3, 4}


@pytest.mark.parametrize("field", ["eligible", "exclude"])
async def test_names_of_no_live_arm_are_skipped_and_counted_once(client, field):
    await session(client)
    await change(client, add=["x"], remove=["d"])

    by_label = await act(client, **{field: ["a", "d", "nobody", "", "nobody", "x"]})
    by_index = await act(client, **{field: [0, 3, 5, 5, 2**70, 4]})
    several = await acts(client, count=2, **{field: ["a", "d"]})

    assert by_label["skipped"] == 3
    assert by_index["skipped"] == 3
    assert several["skipped"] == 1
    assert all("skipped" not in action for action in several["actions"])
    allowed = {"a", "x"} if field == "eligible" else {"b", "c"}
    assert {by_label["label"], by_index["label"]} <= allowed
    assert "skipped" not in await act(client, **{field: ["a"]})


@pytest.mark.parametrize(
    "body", [{"eligible": ["nobody"]}, {"eligible": [7, 9]}, {"exclude": ARMS}, {"exclude": [0, 1, 2, 3, 4]}]
)
async def test_where_nothing_is_left_no_slot_opens(client, body):
    await session(client)
    before = await view(client)

    answer = await act(client, status=409, **body)
    several = await acts(client, status=409, count=3, distinct=True, **body)

    assert answer["code"] == several["code"] == "no_eligible_arm"
    assert await view(client) == before


async def test_fixed_arms_at_0_alone_are_nothing_left(client):
    await session(client, kind="fixed", learner={"probabilities": {"a": 0.5, "b": 0.5, "c": 0, "d": 0}})

    assert (await act(client, status=409, eligible=["c", "d"]))["code"] == "no_eligible_arm"
    assert (await act(client, eligible=["b", "c"]))["probability"] == 1.0
    assert len((await acts(client, count=4, distinct=True))["actions"]) == 2


async def test_the_longest_list_is_served(client):
    await session(client)

    action = await act(client, exclude=[f"item-{n}" for n in range(MAX_NAMES - 1)] + ["a"])

    assert action["skipped"] == MAX_NAMES - 1
    assert action["label"] != "a"


@pytest.mark.parametrize("kind", TAKES)
async def test_distinct_arms_are_drawn_one_by_one_from_those_left(client, kind):
    await session(client, kind=kind)
    run = start_run(Params(REGISTRY[kind].model_validate({"kind": kind, "arms": ARMS} | KINDS[kind]), 7))

    several = await acts(client, count=3, distinct=True, exclude=["b", "zz"])
    fewer = await acts(client, count=9, distinct=True)

    left = [0, 2, 3]
    for action in several["actions"]:
        assert (action["slot"], action["arm"], action["probability"]) == run.act(run.arms.find(left)[0])[:3]
        left.remove(action["arm"])
    assert (several["skipped"], several["actions"][-1]["probability"]) == (1, 1.0)
    assert sorted(action["label"] for action in fewer["actions"]) == ARMS
    assert [action["slot"] for action in fewer["actions"]] == [4, 5, 6, 7]
    assert (await view(client))["outstanding"] == 7


async def test_the_same_key_gives_the_same_answer_and_another_body_none(client):
    await session(client)
    key = {"Idempotency-Key": "k"}

    first = await act(client, headers=key, eligible=["a", "b", "zz"])
    again = await act(client, headers=key, eligible=["a", "b", "zz"])
    other = await act(client, status=422, headers=key, eligible=["a"])
    nothing = await act(client, status=409, headers={"Idempotency-Key": "n"}, eligible=["zz"])
    await change(client, add=["zz"])
    added = await act(client, headers={"Idempotency-Key": "n"}, eligible=["zz"])

    assert first == again
    assert other["code"] == "idempotency_conflict"
    assert nothing["code"] == "no_eligible_arm"
    assert added["label"] == "zz"


async def test_a_stored_answer_comes_before_nothing_left(client):
    """An act with a key is answered again when its arm has been removed since."""
    await session(client)
    key = {"Idempotency-Key": "k"}

    first = await act(client, headers=key, eligible=["a"])
    await change(client, remove=["a"])

    assert await act(client, headers=key, eligible=["a"]) == first
    assert (await act(client, status=409, eligible=["a"]))["code"] == "no_eligible_arm"


async def test_several_processes_draw_each_slot_once_and_only_what_may_be_drawn(make_client, store):
    """Two workers, acts that conflict: slots count on, and every act draws within its own list."""
    clients = [await make_client(store) for _ in range(2)]
    await session(clients[0])
    allowed = [["a", "b"], ["c"], ["b", "d"]]

    async def some(number):
        body = {"count": 2, "distinct": True, "eligible": allowed[number % 3]}
        return (await acts(clients[number % 2], **body))["actions"]

    answers = await asyncio.gather(*(some(number) for number in range(12)))
    await clients[0].delete(PATH)

    for number, actions in enumerate(answers):
        assert {action["label"] for action in actions} == set(allowed[number % 3])
    slots = sorted(action["slot"] for actions in answers for action in actions)
    assert all(after == before + 1 for before, after in pairwise(slots))
    assert len(slots) == 20


@pytest.mark.parametrize(
    ("body", "field"),
    [
        *(({"eligible": each}, "eligible") for each in ([], ["a", 1], [-1], [1.5], "a", [*range(MAX_NAMES + 1)])),
        *(({"exclude": each}, "exclude") for each in ([1, "a"], [True], [None], ["a"] * (MAX_NAMES + 1))),
        ({"eligible": ["a"], "exclude": ["b"]}, "exclude"),
        ({"eligible": ["a"], "exclude": []}, "exclude"),
        ({"only": ["a"]}, "only"),
    ],
)
async def test_what_makes_no_sense_is_refused(client, body, field):
    await session(client)

    answers = [await act(client, status=422, **body), await acts(client, status=422, count=2, **body)]

    for answer in answers:
        assert answer["code"] == "invalid_request"
        assert [error["field"] for error in answer["errors"]] == [field]
    assert (await view(client))["slot"] == 0


async def test_half_a_character_is_no_label(client):
    await session(client)
    body, head = b'{"eligible": ["\\ud800"]}', {"Content-Type": "application/json"}

    answer = await client.post(f"{PATH}/act", content=body, headers=head)

    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, "eligible")


async def test_distinct_is_a_field_of_acts_alone(client):
    await session(client)

    assert (await act(client, status=422, distinct=True))["errors"][0]["field"] == "distinct"
    assert (await acts(client, status=422, count=2, distinct=1))["errors"][0]["field"] == "distinct"


async def test_labels_where_the_session_has_none_are_refused_and_the_other_way_round_is_not(client):
    await session(client, arms=4)
    assert (await act(client, status=422, eligible=["a"]))["errors"][0]["field"] == "eligible"
    assert (await act(client, exclude=[0]))["arm"] != 0


@pytest.mark.parametrize("kind", sorted(KINDS.keys() - set(TAKES)))
async def test_learners_that_do_not_define_choices_or_pauses_say_so(client, kind):
    before = await session(client, kind=kind)

    for field in ("pause", "resume"):
        refused = await change(client, 422, **{field: ["a"]})
        assert [error["field"] for error in refused["errors"]] == [field]
    assert await change(client, pause=[], resume=[]) == before
    assert before["paused"] == []

    for body, field in (
        ({"eligible": ["a"]}, "eligible"),
        ({"exclude": []}, "exclude"),
        ({"count": 2, "distinct": True}, "distinct"),
        ({"count": 2, "eligible": ["a"]}, "eligible"),
    ):
        assert (await (acts if "count" in body else act)(client, status=422, **body))["errors"][0]["field"] == field
    assert len((await acts(client, count=2, distinct=False))["actions"]) == 2


async def test_learners_over_points_do_not_define_it(client):
    learner = {"kind": "dbgd", "dim": 2, "feasible_set": {"kind": "ball", "radius": 1.0}}
    await client.post("/v1/sessions", json={"session_id": "s", "learner": learner})

    assert (await act(client, status=422, eligible=[0]))["errors"][0]["field"] == "eligible"
    assert (await acts(client, status=422, count=2, distinct=True))["errors"][0]["field"] == "distinct"
    assert (await act(client))["slot"] == 1


@pytest.mark.parametrize("kind", TAKES)
async def test_the_numbers_are_those_of_the_run_in_process_and_no_arm_falls_below_its_share(client, kind):
    await session(client, kind=kind, floor=0.2)
    spec = REGISTRY[kind].model_validate({"kind": kind, "arms": ARMS} | KINDS[kind])
    run = start_run(Params(spec, 7, floor=0.2))

    for number in range(30):
        arms = [[0, 1, 2, 3], [0, 1], [1, 2, 3]][number % 3]
        action, own = await act(client, eligible=arms), run.act(run.arms.find(arms)[0])
        assert (action["slot"], action["arm"], action["probability"]) == own[:3]
        assert action["probability"] >= 0.2 / len(arms)
        loss = 1.0 if action["arm"] else 0.0
        event = {"arm": action["arm"], "loss": loss, "slot": action["slot"]}
        assert (await client.post(f"{PATH}/feedback", json=event)).status_code == 200
        run.settle(ArmFeedback(action["arm"], loss, action["slot"]))

    seen = await view(client)
    assert (seen["floor"], seen["probabilities"]) == (0.2, run.probabilities.tolist())
    assert min(seen["probabilities"]) >= 0.05
    assert sum(seen["probabilities"]) == pytest.approx(1)


@pytest.mark.parametrize("floor", [1, 1.5, -0.1, "0.1", True])
async def test_a_floor_is_a_number_below_1(client, floor):
    body = {"session_id": "s", "learner": {"kind": "centred_tsallis", "arms": ARMS}, "floor": floor}
    answer = await client.post("/v1/sessions", json=body)

    assert answer.status_code == 422
    assert [error["field"] for error in answer.json()["errors"]] == ["floor"]


@pytest.mark.parametrize("kind", sorted(REGISTRY.keys() - set(TAKES)))
async def test_learners_that_do_not_define_a_floor_say_so(client, kind):
    over_points = {"dim": 2, "feasible_set": {"kind": "ball", "radius": 1.0}, "horizon": 10, "total_delay": 5}
    known = REGISTRY[kind].model_fields.keys()
    fields = KINDS[kind] | {"n_arms": 3} if kind in KINDS else over_points
    if "max_delay" in known and kind not in KINDS:
        fields["max_delay"] = 1
    learner = {"kind": kind} | {name: value for name, value in fields.items() if name in known}
    body = {"session_id": "s", "learner": learner}

    answer = await client.post("/v1/sessions", json=body | {"floor": 0.1})

    assert answer.status_code == 422, answer.text
    assert [error["field"] for error in answer.json()["errors"]] == ["floor"]
    assert (await client.post("/v1/sessions", json=body | {"floor": 0})).status_code == 201


async def test_a_floor_alone_draws_fixed_arms_at_0(client):
    """It applies before it is judged whether an arm is left."""
    await session(client, kind="fixed", learner={"probabilities": {"a": 0.5, "b": 0.5, "c": 0, "d": 0}}, floor=0.5)

    action = await act(client, eligible=["c", "d"])

    assert action["probability"] == 0.5
    assert (await view(client))["probabilities"] == [0.375, 0.375, 0.125, 0.125]


@pytest.mark.parametrize("kind", TAKES)
async def test_a_paused_arm_is_not_drawn_until_it_is_resumed(client, kind):
    await session(client, kind=kind)

    paused = await change(client, pause=["b", "d", "nobody"])
    actions = (await acts(client, count=40))["actions"]
    named = await act(client, eligible=["a", "b"])
    again = await change(client, resume=["b"], pause=["d"])
    drawn = {action["label"] for action in (await acts(client, count=60))["actions"]}

    assert (paused["paused"], paused["probabilities"]) == (["b", "d"], pytest.approx([0.5, 0, 0.5, 0]))
    assert {action["label"] for action in actions} == {"a", "c"}
    assert (named["label"], named["probability"], named["skipped"]) == ("a", 1.0, 1)
    assert again["paused"] == ["d"]
    assert drawn == {"a", "b", "c"}
    assert (await view(client))["learner"]["arms"] == ["a", "b", "c", "d"]


async def test_a_paused_arm_goes_on_learning_and_keeps_what_it_has_learned(client):
    await session(client, kind="exp3", learner={"learning_rate": 0.5})
    actions = (await acts(client, count=20))["actions"]
    of_b = [action for action in actions if action["label"] == "b"]
    await change(client, pause=["b"])

    for action in of_b:
        event = {"label": "b", "loss": 1, "slot": action["slot"]}
        answer = (await client.post(f"{PATH}/feedback", json=event)).json()
        assert (answer["applied"], answer.get("removed")) == (1, None)
    paused = await view(client)
    resumed = await change(client, resume=["b"])

    assert (paused["probabilities"][1], paused["probabilities"][0]) == (0, pytest.approx(1 / 3))
    assert 0 < resumed["probabilities"][1] < 0.25
    assert paused["removed"] == 0
    assert paused["feedbacks"] == len(of_b) > 0


async def test_the_view_is_that_of_the_last_slot_where_no_arm_is_paused(client):
    """Whatever that slot named; with a paused arm it is solved over the others."""
    await session(client)
    for arm, loss in [(0, 1.0), (1, 0.0), (2, 1.0), (3, 0.5)] * 5:
        await act(client, eligible=[arm])
        await client.post(f"{PATH}/feedback", json={"arm": arm, "loss": loss})

    whole = (await view(client), await act(client, eligible=["a"]), await view(client))
    paused = await change(client, pause=["b"])
    drawn = (await acts(client, count=8))["actions"]
    after = await view(client)

    assert whole[1]["probability"] == 1.0
    assert min(whole[2]["probabilities"]) > 0
    assert whole[2]["probabilities"] != [1, 0, 0, 0]
    assert paused["probabilities"][1] == 0
    assert sum(paused["probabilities"]) == pytest.approx(1)
    assert drawn[-1]["probability"] == after["probabilities"][drawn[-1]["arm"]]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"pause": ["a", "b", "c", "d"]}, "pause"),
        ({"resume": ["c"], "pause": ["a", "b", "c"]}, "pause"),
        ({"remove": ["a", "b"]}, "remove"),
        ({"remove": ["a"], "pause": ["b"]}, "pause"),
        ({"remove": ["a", "b", "c", "d"], "add": ["x"], "pause": ["x"]}, "remove"),
    ],
)
async def test_an_arm_that_may_be_drawn_must_stay(client, body, field):
    await session(client)
    before = await change(client, pause=["c", "d"])

    answer = await change(client, 422, **body)

    assert [error["field"] for error in answer["errors"]] == [field]
    assert await view(client) == before


async def test_removes_come_before_adds_resumes_and_pauses(client):
    await session(client)

    first = await change(client, remove=["a"], add=["a", "x"], resume=["x"], pause=["x", "c"])
    second = await change(client, remove=["c"], add=["c"], resume=["x", "c"])

    assert (first["learner"]["arms"], first["paused"]) == (["b", "c", "d", "a", "x"], ["c", "x"])
    assert (second["learner"]["arms"], second["paused"]) == (["b", "d", "a", "x", "c"], [])


async def test_the_only_unpaused_arms_may_go_when_others_come(client):
    await session(client)
    await change(client, pause=["c", "d"])

    changed = await change(client, remove=["a", "b"], add=["x"])

    assert (changed["paused"], changed["probabilities"]) == (["c", "d"], pytest.approx([0, 0, 1]))
    assert {action["label"] for action in (await acts(client, count=5))["actions"]} == {"x"}


async def test_what_changes_nothing_is_no_commit(client):
    await session(client)
    before = await change(client, pause=["b"])

    changed = await change(client, pause=["b", "nobody"], resume=["a", "zz"])

    assert changed.pop("unknown") == ["nobody", "zz"]
    assert changed == before
    assert await replace(client, ["d", "a", "b", "c", "a"]) == before == await view(client)


async def test_pauses_are_kept_by_every_store_and_seen_by_every_process(make_client, store):
    first, second = await make_client(store), await make_client(store)
    await session(first)
    await asyncio.gather(*(acts(each, count=4) for each in (first, second)))

    await change(first, pause=["a", "c"])
    drawn = (await acts(second, count=12))["actions"]
    await change(second, resume=["a"], pause=["d"])
    later = await make_client(store)
    seen, action = await view(later), await act(later, exclude=["b", "c"])
    await first.delete(PATH)

    assert {each["label"] for each in drawn} == {"b", "d"}
    assert seen["paused"] == ["c", "d"]
    assert (action["label"], action["skipped"]) == ("a", 1)
