"""Sessions with features: what acts and events say of visitors, how it is learned, kept, shown and refused."""

import json

import numpy as np
import pytest

from service.learners.features import UNIT
from service.store.memory import MemoryStore
from tests.support.one_session import answered
from tests.support.plain_features import PlainFeatures

AGE = {"kind": "number", "range": [0, 100]}
DEVICE = {"kind": "category", "values": ["phone", "tablet"]}
FEATURES = {"age": AGE, "device": DEVICE}
HOUR = {"after_seconds": 3600, "default_reward": 0}
SESSION = {
    "learner": {"kind": "multiscale_tsallis", "arms": ["a", "b", "c"]},
    "features": FEATURES,
    "reward_range": [0, 1],
    "expiry": HOUR,
}


@pytest.fixture
async def client(make_client, memory):
    return await make_client(memory, clicks_per_second=0)


async def refused(client, path, body, field, code="invalid_request", method="post"):
    answer = await client.request(method, path, json=body)
    problem = answer.json()
    assert (answer.status_code, problem["code"]) == (422, code), answer.text
    assert problem["errors"][0]["field"] == field, answer.text
    return problem["errors"][0]["message"]


async def acted(client, path, said=None, route="act", **body):
    said = {} if said is None else {"features": said}
    return await answered(client, "POST", f"{path}/{route}", json=body | said)


async def told(client, path, **event):
    return await answered(client, "POST", f"{path}/feedback?on_surplus=skip", json=event)


# -- Sessions with features.


async def test_view_shows_features_as_declared_with_tokens_and_their_weight(client, create):
    path = await create(**SESSION)
    view = (await client.get(path)).json()
    assert view["features"] == {"age": {"kind": "number", "range": [0, 100]}, "device": DEVICE}
    assert (view["tokens"], view["columns"], view["feature_weight"]) == (True, 4, 4 / 11)
    assert "feature_weight" not in view["learner"]
    listed = (await client.get("/v1/sessions")).json()["sessions"][0]
    shared = ("features", "columns", "feature_weight", "hints", "learner")
    assert {name: listed[name] for name in shared} == {name: view[name] for name in shared}


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"learner": {"kind": "dexp3", "n_arms": 3}, "expiry": None}, "features"),
        ({"segments": {"max": 3}}, "features"),
        ({"normalize_losses": False, "reward_range": None, "expiry": None}, "normalize_losses"),
        ({"expiry": HOUR | {"provisional": False}}, "expiry.provisional"),
        ({"tokens": False}, "tokens"),
        ({"features": None, "decision_log": {"max_entries": 9, "features": True}}, "decision_log.features"),
        ({"features": {"age": {"kind": "number"}}}, "features.age.range"),
        ({"features": {"age": AGE | {"unit": "years"}}}, "features.age.unit"),
        ({"features": {"age": {"kind": "number", "range": [2, 2]}}}, "features.age.range"),
        ({"features": {"age": {"kind": "text"}}}, "features.age.kind"),
        ({"features": {"device": {"kind": "category"}}}, "features.device.values"),
        ({"features": {"x": {"kind": "vector", "length": 63, "range": [0, 1]}, "age": AGE}}, "features"),
    ],
)
async def test_what_does_not_go_with_features_is_refused(client, fields, field):
    body = {name: value for name, value in (SESSION | fields).items() if value is not None}
    await refused(client, "/v1/sessions", body, field)


async def test_a_session_has_no_more_arms_than_its_features_leave_room_for(make_client, clock):
    client = await make_client(MemoryStore(clock=clock), max_feature_cells=3 * 4 * 7)
    four = SESSION | {"learner": {"kind": "multiscale_tsallis", "arms": ["a", "b", "c", "d"]}}
    message = await refused(client, "/v1/sessions", four, "features")
    assert "4 columns" in message
    assert "3 arms" in message
    assert message.endswith("not 4")
    assert (await client.post("/v1/sessions", json=SESSION | {"session_id": "shop"})).status_code == 201
    await refused(client, "/v1/sessions/shop/arms", {"add": ["d"]}, "features", method="patch")
    await refused(client, "/v1/sessions/shop/arms", {"arms": ["w", "x", "y", "z"]}, "features", method="put")
    assert (await client.patch("/v1/sessions/shop/arms", json={"add": ["d"], "remove": ["a"]})).status_code == 200
    document = (await client.get("/v1/sessions/shop/export")).json()
    smaller = await make_client(MemoryStore(clock=clock), max_feature_cells=3 * 4 * 7 - 1)
    answer = await smaller.post("/v1/sessions/import", json=document)
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, "features")


async def test_a_default_that_waits_can_not_be_given_later(client, create):
    path = await create(**SESSION | {"expiry": HOUR | {"default_reward": None}})
    await refused(client, path, {"expiry": HOUR}, "expiry.default_reward", method="patch")
    answer = await client.patch(path, json={"expiry": {"after_seconds": 60, "default_reward": None}})
    assert answer.status_code == 200


# -- Acts and events.


@pytest.mark.parametrize(
    ("said", "field"),
    [({"height": 1}, "features.height"), ({"age": "33"}, "features.age"), ({"device": True}, "features.device")],
)
async def test_an_act_that_says_a_feature_wrongly_opens_no_slot(client, create, said, field):
    path = await create(**SESSION)
    for route, more in (("act", {}), ("acts", {"count": 2})):
        await refused(client, f"{path}/{route}", {"features": said, **more}, field)
    await refused(client, f"{path}/probabilities", {"features": said}, field)
    action = await acted(client, path, {"age": 33, "device": "watch"})
    await refused(client, f"{path}/feedback", {"arm": 0, "reward": 1, "features": said}, field)
    assert action["slot"] == 1


async def test_features_need_a_session_that_has_them(client, create):
    path = await create()
    await refused(client, f"{path}/act", {"features": {"age": 3}}, "features")
    await refused(client, f"{path}/feedback", {"arm": 0, "loss": 1, "features": {"age": 3}}, "features")
    await refused(client, f"{path}/probabilities", {"features": {}}, "features")
    answer = await client.get(f"{path}/features")
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, "features")


async def test_each_action_has_a_token_and_each_event_says_one_thing(client, create):
    path = await create(**SESSION)
    for body in ({"count": 3}, {"count": 3, "distinct": True}, {"count": 2, "eligible": ["a"]}):
        actions = (await acted(client, path, {"age": 20}, "acts", **body))["actions"]
        assert len({action["token"] for action in actions}) == len(actions)
    token = (await acted(client, path, {"age": 20}))["token"]
    await refused(client, f"{path}/feedback", {"token": token, "reward": 1, "features": {}}, "features")
    forged = token[:-1] + ("A" if token[-1] != "A" else "Q")
    await refused(client, f"{path}/feedback", {"token": forged, "reward": 1}, "token", "invalid_token")
    answer = await client.post("/v1/clicks", json={"token": forged})
    assert (answer.status_code, answer.json()["code"]) == (403, "bad_token")
    events = {"events": [{"token": forged, "reward": 1}, {"token": token, "reward": 1}]}
    answer = await client.post(f"{path}/feedbacks?on_invalid=skip", json=events)
    assert (answer.json()["applied"], answer.json()["invalid"]) == (1, 1)
    assert (await client.post("/v1/clicks", json={"token": token})).status_code == 204
    assert (await told(client, path, label="a", reward=1, features={"age": 20}))["applied"] == 1
    assert (await told(client, path, label="a", reward=0.5))["applied"] == 1
    assert (await client.get(path)).json()["feedbacks"] == 3


def columns_of(said):
    age = 0.0 if said.get("age") is None else round((said["age"] / 50 - 1) * UNIT) / UNIT
    return np.array([1.0, age, *(float(said.get("device") == name) for name in DEVICE["values"])])


def someone(rng):
    said = {"age": int(rng.integers(101)), "device": ["phone", "tablet", "watch", None][rng.integers(4)]}
    return said if rng.random() < 0.9 else {"device": said["device"]}


class Player:
    """Plays a session, and tells another implementation of the rule the same."""

    def __init__(self, path, seed, default, floor):
        self.path, self.rng, self.default, self.waiting = path, np.random.default_rng(seed), default, []
        self.plain = PlainFeatures(3, 4, default, floor)

    async def step(self, client):
        rng, plain, path = self.rng, self.plain, self.path
        said = someone(rng)
        among = [0, 1, 2] if rng.random() < 0.6 else sorted(rng.choice(3, 2, replace=False).tolist())
        x = columns_of(said)
        p = plain.open_for(x, len(self.waiting), among)
        action = await acted(client, path, said, eligible=["abc"[k] for k in among])
        arm = action["arm"]
        assert action["probability"] == pytest.approx(p[arm], abs=1e-9)
        ratio = plain.act_ratio(arm)
        if self.default is not None:
            plain.told(arm, self.default, x, ratio)
        self.waiting.append((arm, said, ratio, action["token"]))
        for _ in range(rng.integers(0, 3)):
            await self.event(client)
        said = {"age": 70}
        there = (await client.post(f"{path}/probabilities", json={"features": said})).json()["arms"]
        expected = plain.visit(columns_of(said), [0, 1, 2])
        assert [row["probability"] for row in there] == pytest.approx(expected, abs=1e-9)

    async def event(self, client):
        rng, plain = self.rng, self.plain
        if not self.waiting:
            return
        arm, said, ratio, token = self.waiting.pop(rng.integers(len(self.waiting)))
        kind, reward = rng.integers(4), float(rng.integers(5)) / 4
        is_void = rng.random() < 0.2
        event = {"reward": None if is_void else reward}
        if kind == 0:
            event |= {"arm": arm}
            x = ratio = None
        elif kind == 1:
            event |= {"arm": arm, "features": said}
            x, ratio = columns_of(said), None
        else:
            event |= {"token": token}
            x = columns_of(said)
        settlement = await told(client, self.path, **event)
        assert settlement["voided" if is_void else "applied"] == 1
        if is_void:
            plain.voided(arm, x, ratio)
        elif self.default is None:
            plain.told(arm, 1 - reward, x, ratio)
        else:
            plain.corrected(arm, 1 - reward, self.default, x, ratio)


@pytest.mark.parametrize(("default", "floor", "seed"), [(1.0, 0.0, 1), (1.0, 0.1, 2), (None, 0.0, 3)])
async def test_what_it_draws_from_is_what_the_rule_says(client, create, default, floor, seed):
    expiry = HOUR | {"default_reward": None if default is None else 0}
    session = SESSION | {"expiry": expiry, "floor": floor, "seed": seed}
    player = Player(await create(**session), seed, default, floor)
    for _ in range(40):
        await player.step(client)


async def test_an_update_is_learned_with_the_token_again(client, create):
    same = {"seed": 5, "updates": {"within_seconds": 600}, "goals": {"click": 0.5, "buy": 1.0}}
    paths = [await create(**SESSION | same) for _ in range(2)]
    for n, path in enumerate(paths):
        tokens = [(await acted(client, path, {"age": age}))["token"] for age in (10, 90, 40)]
        for token in tokens[:2]:
            for goal in ("click", "buy") if n else ("buy",):
                await told(client, path, token=token, goal=goal)
    one, other = [(await acted(client, path, {"age": 12}))["probability"] for path in paths]
    assert one == pytest.approx(other, abs=0.02)
    goals = (await client.get(paths[1])).json()["goals"]
    assert {name: goal["events"] for name, goal in goals.items()} == {"click": 2, "buy": 2}


@pytest.mark.parametrize("default", [0, None])
async def test_what_comes_after_the_window_is_surplus(client, create, clock, default):
    path = await create(**SESSION | {"expiry": {"after_seconds": 60, "default_reward": default}})
    tokens = [(await acted(client, path, {"age": age}))["token"] for age in (10, 90)]
    assert (await told(client, path, token=tokens[0], reward=1))["applied"] == 1
    clock.now += 100
    assert (await told(client, path, token=tokens[1], reward=1))["surplus"] == 1
    await acted(client, path, {"age": 30})
    view = (await client.get(path)).json()
    assert (view["expired"], view["outstanding"], view["mean_reward"]) == (1, 1, 0.5 if default == 0 else 1)


# -- What is kept, and goes on.


async def everything(client, path, slots, seed, start=0):
    """Actions of a session that is played; tokens apart, which depend on the time."""
    rng, actions = np.random.default_rng([seed, start]), []
    for _ in range(slots):
        said = someone(rng)
        action = await acted(client, path, said)
        actions.append((action["arm"], action["probability"]))
        if rng.random() < 0.5:
            event = {"token": action["token"]} if rng.random() < 0.5 else {"arm": action["arm"]}
            await told(client, path, reward=float(rng.random() < 0.7), **event)
        if rng.random() < 0.1:
            await told(client, path, arm=action["arm"], features=said, reward=None)
    return actions


@pytest.mark.parametrize("expiry", [HOUR, None])
async def test_workers_in_turn_play_as_one_alone_to_the_bit(make_client, clock, expiry, monkeypatch):
    """Each of the others reads what the last one has written: the state, a snapshot, and operations."""
    monkeypatch.setattr("service.learners.feature_tsallis.ROW_BYTES", 200)
    stores = [MemoryStore(clock=clock) for _ in range(2)]
    alone, *workers = [await make_client(stores[n > 0]) for n in range(4)]
    session = {name: value for name, value in (SESSION | {"expiry": expiry}).items() if value is not None}
    for client in (alone, workers[0]):
        body = session | {"session_id": "shop", "seed": 3}
        assert (await client.post("/v1/sessions", json=body)).status_code == 201
    path = "/v1/sessions/shop"
    for turn in range(12):
        expected = await everything(alone, path, 5, 1, turn)
        assert await everything(workers[turn % 3], path, 5, 1, turn) == expected
        if turn in (4, 8):
            for client in (alone, workers[0]):
                change = (
                    {"add": [f"new{turn}"], "remove": ["b"], "pause": ["c"]} if turn == 4 else {"resume": ["c"]}
                )
                assert (await client.patch(f"{path}/arms", json=change)).status_code == 200
    views = [(await client.get(path)).json() for client in (alone, *workers)]
    assert all(view["probabilities"] == views[0]["probabilities"] for view in views)


async def test_an_exported_session_goes_on_bit_for_bit_and_its_tokens_are_good(make_client, clock):
    stores = [MemoryStore(clock=clock) for _ in range(2)]
    client, elsewhere = [await make_client(store) for store in stores]
    initial = [{"label": "a", "acts": 500, "mean_reward": 0.2}, {"label": "b", "acts": 20, "mean_reward": 0.4}]
    body = SESSION | {"session_id": "shop", "seed": 3, "initial": initial}
    body["features"] = dict(reversed(FEATURES.items()))  # A document has names in another order.
    assert (await client.post("/v1/sessions", json=body)).status_code == 201
    path = "/v1/sessions/shop"
    await everything(client, path, 60, 2)
    token = (await acted(client, path, {"age": 50}))["token"]
    key = await stores[0].token_key(b"k" * 32)
    assert await stores[1].token_key(key) == key
    document = (await client.get(f"{path}/export")).json()
    answer = await elsewhere.post("/v1/sessions/import", json=document)
    assert answer.status_code == 201, answer.text
    for each in (client, elsewhere):
        assert (await told(each, path, token=token, reward=1))["applied"] == 1
    assert await everything(client, path, 30, 3) == await everything(elsewhere, path, 30, 3)


# -- What is shown, and what is not.


async def test_features_page_tells_what_acts_left_out(client, create):
    path = await create(**SESSION)
    empty = (await client.get(f"{path}/features")).json()["features"]
    assert empty["device"] == {"columns": 2, "missing": 0, "clipped": 0}
    for said in ({"age": 300}, {"age": 30, "device": "phone"}, {}, None):
        await acted(client, path, said)
    shown = (await client.get(f"{path}/features")).json()["features"]
    assert shown["age"] == {"columns": 1, "missing": 0.5, "clipped": 0.25}
    assert shown["device"] == {"columns": 2, "missing": 0.75, "clipped": 0}


async def test_hints_tell_of_features_that_are_left_out_or_clipped(client, create, monkeypatch):
    monkeypatch.setattr("service.engine.run.SAID_TOGETHER", 20)
    monkeypatch.setattr("service.serialization.summary.SAID_ACTS", 10)
    monkeypatch.setattr("service.serialization.summary.UNUSED_SLOTS", 20)
    monkeypatch.setattr("service.serialization.summary.UNUSED_WEIGHT", 0.5)
    path = await create(**SESSION)
    for n in range(25):
        await acted(client, path, {"age": 200 if n % 4 == 0 else 20})
    codes = {hint["code"] for hint in (await client.get(path)).json()["hints"]}
    assert {"features_missing", "features_clipped", "features_unused"} <= codes
    for code in ("features_missing", "features_clipped", "features_unused"):
        assert len((await client.get(f"/v1/sessions?hint={code}")).json()["sessions"]) == 1
    for _ in range(40):
        await acted(client, path, {"age": 20, "device": "phone"})
    codes = {hint["code"] for hint in (await client.get(path)).json()["hints"]}
    assert codes & {"features_missing", "features_clipped"} == set()


async def test_probabilities_of_a_visitor_leave_paused_arms_out_and_open_no_slot(client, create):
    path = await create(**SESSION | {"floor": 0.2})
    await everything(client, path, 30, 4)
    assert (await client.patch(f"{path}/arms", json={"pause": ["b"]})).status_code == 200
    before = (await client.get(path)).json()
    arms = (await client.post(f"{path}/probabilities", json={"features": {"age": 3}})).json()["arms"]
    assert [(row["arm"], row["label"]) for row in arms] == [(0, "a"), (1, "b"), (2, "c")]
    assert arms[1]["probability"] == before["probabilities"][1] == 0
    assert sum(row["probability"] for row in arms) == pytest.approx(1)
    assert sum(before["probabilities"]) == pytest.approx(1)
    after = (await client.get(path)).json()
    assert (after["slot"], after["version"]) == (before["slot"], before["version"])


@pytest.mark.parametrize("is_chosen", [True, False])
async def test_the_log_has_columns_only_if_it_is_to(client, create, is_chosen):
    log = {"max_entries": 100} | ({"features": True} if is_chosen else {})
    path = await create(**SESSION | {"decision_log": log})
    assert (await client.get(path)).json()["decision_log"] == log
    said, other, columns = {"age": 100, "device": "tablet"}, {"age": 0}, [1.0, 1.0, 0.0, 1.0]
    first, second, third = [await acted(client, path, each) for each in (said, other, None)]
    await told(client, path, arm=first["arm"], reward=1, features=said)
    await told(client, path, arm=second["arm"], reward=None, features=other)
    await told(client, path, token=third["token"], reward=1)
    entries = (await client.get(f"{path}/decisions")).json()["decisions"]
    shown = [entry.get("encoded") for entry in (entries[-6], *entries[-3:])]
    assert shown == ([columns, columns, [1.0, -1.0, 0.0, 0.0], None] if is_chosen else [None] * 4)
    assert [entry.get("slot") for entry in entries[-3:]] == [None, None, third["slot"]]


async def test_features_are_in_no_log_line_error_or_metric(client, create, lines):
    path = await create(**SESSION)
    secret = "pregnant-4711"
    await acted(client, path, {"device": secret, "age": 77.125})
    for said in ({"age": secret}, {secret: 1}, {"device": [secret]}):
        answer = await client.post(f"{path}/act", json={"features": said})
        assert answer.status_code == 422
        assert secret not in json.dumps([each["message"] for each in answer.json()["errors"]])
    metrics = (await client.get("/metrics")).text
    shown = json.dumps(lines()) + metrics + (await client.get(path)).text
    assert secret not in shown
    assert "77.125" not in shown


async def test_control_acts_are_unknown_to_the_learner_and_bring_no_columns(client, create):
    """Of two sessions alike one has clicks of its control group, and both go on alike."""
    log, played = {"max_entries": 200, "features": True}, []
    for has_clicks in (True, False):
        path = await create(**SESSION | {"control": {"share": 0.5}, "seed": 4, "decision_log": log})
        groups = {"control": [], "learner": []}
        for age in range(20):
            action = await acted(client, path, {"age": age, "device": "phone"})
            groups[action["group"]].append(action)
        for action in groups["learner"][:3]:
            assert (await told(client, path, token=action["token"], reward=1))["applied"] == 1
        sizes = [[len(action["token"]) for action in actions] for actions in groups.values()]
        assert max(sizes[0]) < min(sizes[1])
        event = {"arm": groups["control"][5]["arm"], "group": "control", "reward": 1}
        await refused(client, f"{path}/feedback", event | {"features": {"age": "5"}}, "features.age")
        for action in groups["control"][:5] if has_clicks else ():
            assert (await told(client, path, token=action["token"], reward=1))["applied"] == 1
        if has_clicks:
            assert (await told(client, path, **event, features={"age": 50}))["applied"] == 1
        later = [await acted(client, path, {"age": 2 * age}) for age in range(20)]
        played.append([(action["group"], action["arm"], action["probability"]) for action in later])
        entries = (await client.get(f"{path}/decisions")).json()["decisions"]
        assert all(len(entry["encoded"]) == 4 for entry in entries if entry["kind"] == "act")
    assert played[0] == played[1]
    assert len({p for _, _, p in played[0]}) > 2


async def test_in_silence_nothing_is_charged_and_an_event_is_learned_whole(client, create, clock, monkeypatch):
    monkeypatch.setattr("service.engine.ledger.LEAST_EVENTS", 2)
    monkeypatch.setattr("service.engine.ledger.LEAST_MISSED", 1)
    path = await create(**SESSION | {"expiry": {"after_seconds": 60, "default_reward": 0}, "seed": 4})
    plain = PlainFeatures(3, 4, 1.0, 0.0)

    async def act(age, outstanding, *, is_silent=False):
        said, x = {"age": age}, columns_of({"age": age})
        p, action = plain.open_for(x, outstanding, [0, 1, 2]), await acted(client, path, said)
        assert action["probability"] == pytest.approx(p[action["arm"]], abs=1e-9)
        ratio = plain.act_ratio(action["arm"])
        if not is_silent:
            plain.told(action["arm"], 1.0, x, ratio)
        return action, x, ratio

    async def click(decision, *, is_charged):
        action, x, ratio = decision
        assert (await told(client, path, token=action["token"], reward=1))["applied"] == 1
        if is_charged:
            plain.corrected(action["arm"], 0.0, 1.0, x, ratio)
        else:
            plain.told(action["arm"], 0.0, x, ratio)

    first = [await act(20 * n, n) for n in range(5)]
    for decision in first[:3]:
        await click(decision, is_charged=True)
    clock.now += 100
    silent = [await act(50, 0, is_silent=True), await act(90, 1, is_silent=True)]
    hints = (await client.get(path)).json()["hints"]
    assert "silence" in {hint["code"] for hint in hints}
    await click(silent[0], is_charged=False)
    later = await act(30, 1)
    await click(later, is_charged=True)
    settlement = await told(client, path, token=silent[1][0]["token"], reward=None)
    assert settlement["voided"] == 1
    plain.dropped += 1
    await act(60, 0)
