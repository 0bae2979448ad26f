"""Tokens of actions, and clicks that browsers report by them."""

import asyncio
import gzip
import json

import pytest

from service import __version__
from service.errors import TooManyClicksError
from service.sessions.clicks import MAX_ADDRESSES, ClickRates
from service.settings import SecretText
from service.telemetry.logs import OWNED
from service.tokens import read
from tests.support.one_session import answered, moved

ORIGIN = {"origin": "https://shop.example", "sec-fetch-site": "cross-site"}
REWARDS = {"tokens": True, "reward_range": [0, 1]}
HOUR = {"after_seconds": 3600, "default_reward": 0}
RATE, DELAYS = {"learning_rate": 0.1}, {"max_delay": 5, "horizon": 100}
LEARNERS = {"fixed": {}, "dexp3": {}, "multiscale_tsallis": {}, "exp3": RATE, "bold": RATE, "clw": DELAYS}


@pytest.fixture
async def client(make_client, memory):
    return await make_client(memory, clicks_per_second=0)


async def acted(client, path, route="act", **body):
    return await answered(client, "POST", f"{path}/{route}", json=body)


async def clicked(client, body, status=204, code=None, indexes=None, **headers):
    """Post a click, as text if it is one, and look at the answer."""
    sent = {"content": body} if isinstance(body, str | bytes) else {"json": body}
    answer = await client.post("/v1/clicks", **sent, headers=headers)
    problem = answer.json() if answer.content else {}
    assert (answer.status_code, problem.get("code")) == (status, code), answer.text
    assert indexes is None or problem["indexes"] == indexes
    return answer


async def counts(client, path, *names):
    view = (await client.get(path)).json()
    return [view[name] for name in names or ("feedbacks", "outstanding")]


def forged(token):
    return token[:-1] + ("A" if token[-1] != "A" else "Q")


# -- Sessions with tokens, and their actions.


async def test_an_action_has_a_token_that_counts_once(client, create):
    path = await create(session_id="s", **REWARDS)
    action = await acted(client, path)
    token = read(action["token"])

    assert (token.session_id, token.slot, token.arm, token.segment) == ("s", 1, action["arm"], "")
    for body in (action["token"], {"token": action["token"]}, [{"token": action["token"]}] * 2):
        await clicked(client, body)
    assert await counts(client, path, "tokens", "feedbacks", "outstanding", "mean_reward") == [True, 1, 0, 1.0]


async def test_each_of_several_actions_has_its_own(client, create):
    path = await create(learner={"kind": "multiscale_tsallis", "arms": ["a", "b", "c"]}, **REWARDS)
    for body in ({"count": 3}, {"count": 3, "distinct": True}, {"count": 2, "eligible": ["a", "x"]}):
        actions = (await acted(client, path, "acts", **body))["actions"]
        said = [read(action["token"]) for action in actions]
        assert [(each.slot, each.arm) for each in said] == [(each["slot"], each["arm"]) for each in actions]
        await clicked(client, [{"token": each["token"]} for each in actions])
    assert await counts(client, path) == [8, 0]
    single = await acted(client, path, eligible=["a", "x"])
    assert single["skipped"] == 1
    assert read(single["token"]).arm == 0


async def test_a_stored_answer_has_the_token_it_had(client, create):
    path = await create(**REWARDS)
    answers = [await client.post(f"{path}/act", headers={"idempotency-key": "k"}) for _ in range(2)]

    assert (answers[0].content, answers[1].headers["idempotent-replayed"]) == (answers[1].content, "true")


async def test_tokens_are_a_field_of_the_session(client, create):
    path = await create(session_id="s", **REWARDS)
    body = {"session_id": "s", "learner": {"kind": "dexp3", "n_arms": 3}, "reward_range": [0, 1]}

    assert (await client.post("/v1/sessions", json=body | {"tokens": True})).status_code == 200
    refused = await client.post("/v1/sessions", json=body)
    assert (refused.status_code, refused.json()["errors"][0]["field"]) == (409, "tokens")
    assert "tokens" not in (await client.get(await create(tokens=False))).json()
    points = {"learner": {"kind": "dbgd", "dim": 2, "feasible_set": {"kind": "ball", "radius": 1}}, "tokens": True}
    refused = await client.post("/v1/sessions", json=points)
    assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, "tokens")
    listed = (await client.get("/v1/sessions")).json()["sessions"]
    assert {each["session_id"]: each.get("tokens") for each in listed}["s"] is True
    assert path


async def test_an_exported_session_knows_its_tokens(client, create, make_client, tmp_path):
    (tmp_path / "keys").write_text("k" * 32)
    one, other = [await make_client(token_keys_file=tmp_path / "keys", clicks_per_second=0) for _ in range(2)]
    path = "/v1/sessions/s"
    body = {"session_id": "s", "learner": {"kind": "dexp3", "n_arms": 3}, **REWARDS}
    assert await one.post("/v1/sessions", json=body)
    first, second = (await acted(one, path, "acts", count=2))["actions"]
    await clicked(one, first["token"])
    await moved(one, other)

    await clicked(other, [{"token": first["token"]}, {"token": second["token"]}])
    assert await counts(other, path, "tokens", "feedbacks", "outstanding") == [True, 2, 0]


@pytest.mark.parametrize("kind", LEARNERS)
async def test_every_learner_over_arms_takes_them(client, create, kind):
    path = await create(learner={"kind": kind, "n_arms": 3} | LEARNERS[kind], tokens=True)
    first, second = (await acted(client, path, "acts", count=2))["actions"]

    await clicked(client, second["token"])
    answer = await client.post(f"{path}/feedback", json={"token": first["token"], "loss": 0.5})
    assert answer.json()["applied"] == 1, answer.text
    assert await counts(client, path, "feedbacks", "mean_loss") == [2, 0.25]  # The best loss is 0.


async def test_a_token_has_its_segment(client, create):
    path = await create(learner={"kind": "centred_tsallis", "n_arms": 3}, segments={"max": 10}, **REWARDS)
    action = await acted(client, path, segment="de/phone")
    await clicked(client, action["token"])

    assert (await client.get(f"{path}?segment=de/phone")).json()["feedbacks"] == 1
    answer = await client.post(f"{path}/feedback", json={"token": action["token"], "reward": 1, "segment": "x"})
    assert answer.json()["errors"][0]["field"] == "segment"


async def test_the_log_has_the_slot_of_an_event_that_came_by_token(client, create):
    path = await create(decision_log={"max_entries": 100}, **REWARDS)
    action = await acted(client, path)
    await clicked(client, action["token"])
    entries = (await client.get(f"{path}/decisions")).json()["decisions"]
    event = {"kind": "event", "arm": action["arm"], "reward": 1.0, "outcome": "applied", "slot": 1}
    assert entries[-1] == event | {"at": entries[-1]["at"], "position": 3, "session_id": path.rpartition("/")[2]}


# -- Events by token on the routes of services.


async def test_the_slot_is_the_id_on_every_route(client, create):
    path = await create(**REWARDS)
    actions = (await acted(client, path, "acts", count=3))["actions"]
    tokens = [each["token"] for each in actions]
    await clicked(client, tokens[0])
    event = {"reward": 1, "event_id": "is not used"}
    said = {"token": tokens[1], "arm": actions[1]["arm"], "slot": 2}
    events = [{"token": token, **event} for token in (*tokens[:2], tokens[1])] + [said | event]
    answer = (await client.post(f"{path}/feedbacks", json={"events": events})).json()
    assert (answer["applied"], answer["duplicates"]) == (1, 3)
    await clicked(client, [{"token": token} for token in tokens[1:]])
    answer = (await client.post(f"{path}/feedback", json={"token": tokens[2], "reward": 0})).json()
    assert (answer["applied"], answer["duplicates"]) == (0, 1)
    assert await counts(client, path) == [3, 0]


async def test_what_an_event_says_beside_its_token_is_the_same(client, create):
    path = await create(learner={"kind": "centred_tsallis", "arms": ["a", "b"]}, **REWARDS)
    action = await acted(client, path)
    mine, other = ("a", "b") if action["arm"] == 0 else ("b", "a")
    event = {"token": action["token"], "reward": 1}
    for field, value in (
        ("arm", 1 - action["arm"]),
        ("label", other),
        ("label", "c"),
        ("slot", 2),
        ("segment", "x"),
    ):
        answer = await client.post(f"{path}/feedback", json=event | {field: value})
        assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, field)
    assert (await client.post(f"{path}/feedback", json=event | {"label": mine})).json()["applied"] == 1
    while (action := await acted(client, path))["label"] == other:
        pass
    await client.patch(f"{path}/arms", json={"remove": [mine]})
    event = {"token": action["token"], "label": mine, "reward": 1}
    assert (await client.post(f"{path}/feedback", json=event)).json()["removed"] == 1


@pytest.mark.parametrize("which", ["forged", "of another session", "no token", "of an earlier making", "tokenless"])
async def test_other_tokens_are_invalid_in_an_event(client, create, clock, which):
    path = await create(session_id="s", **REWARDS)
    token = (await acted(client, path))["token"]
    if which == "of an earlier making":
        await client.delete(path)
        clock.now += 1e-4
        await create(session_id="s", **REWARDS)
    elif which == "tokenless":
        path = await create(session_id="t", reward_range=[0, 1])
    elif which != "forged":
        token = (await acted(client, await create(**REWARDS)))["token"] if "session" in which else "nothing"
    token = forged(token) if which == "forged" else token
    good = await acted(client, path)
    answer = await client.post(f"{path}/feedback", json={"token": token, "reward": 1})
    assert answer.json()["code"] == "invalid_token"
    events = {"events": [{"arm": good["arm"], "reward": 1}, {"token": token, "reward": 1}]}
    refused = (await client.post(f"{path}/feedbacks", json=events)).json()
    assert (refused["code"], refused["status"], refused["indexes"]) == ("invalid_token", 422, [1])
    skipped = (await client.post(f"{path}/feedbacks?on_invalid=skip", json=events)).json()
    assert (skipped["applied"], skipped["invalid"], skipped["invalid_indexes"]) == (1, 1, [1])
    line = {"events": [events["events"][1] | {"session_id": path.rpartition("/")[2]}]}
    assert (await client.post("/v1/feedbacks", json=line)).json()["errors"][0]["code"] == "invalid_token"
    await client.delete(path)
    answer = await client.post(f"{path}/feedback", json={"token": token, "reward": 1})
    assert answer.json()["code"] == "unknown_session"


# -- Clicks: who is refused, in which order, and that nothing of a refused list counts.


async def test_the_window_of_its_decision_ends_a_token(client, create, clock):
    path = await create(expiry=HOUR, **REWARDS)
    first, second, third = (each["token"] for each in (await acted(client, path, "acts", count=3))["actions"])
    clock.now += 3598
    await clicked(client, first)
    clock.now += 2
    await clicked(client, first, 410, "expired_token")
    await clicked(client, second, 410, "expired_token")
    late = await acted(client, path)
    skipped = await client.post(f"{path}/feedback", json={"token": second, "reward": 1})
    assert (skipped.json()["applied"], skipped.json()["surplus"]) == (0, 1)
    refused = await client.post(f"{path}/feedback?on_surplus=refuse", json={"token": second, "reward": 1})
    assert refused.json()["code"] == "surplus_feedback"
    assert (await client.post(f"{path}/feedback", json={"token": first, "reward": 1})).json()["duplicates"] == 1
    await client.patch(path, json={"expiry": HOUR | {"after_seconds": 7200}})
    await clicked(client, third)
    await clicked(client, [{"token": late["token"]}])


@pytest.mark.parametrize("after", [None, 40 * 86_400])
async def test_a_token_counts_once_for_as_long_as_it_lives(make_client, memory, clock, after):
    """Whatever the dedupe window is, and also if the session's own window becomes longer."""
    client, path = await make_client(memory, clicks_per_second=0, dedupe_window_seconds=1), "/v1/sessions/s"
    learner = {"kind": "fixed", "n_arms": 1}
    body = {"session_id": "s", "learner": learner, "expiry": HOUR if after else None, **REWARDS}
    await client.post("/v1/sessions", json=body)
    first, old, *_ = (each["token"] for each in (await acted(client, path, "acts", count=4))["actions"])
    await clicked(client, first)
    clock.now += 3590
    await clicked(client, [{"token": first}, {"token": old}])
    assert await counts(client, path) == [2, 2]
    if after:
        clock.now += 100
        await client.patch(path, json={"expiry": HOUR | {"after_seconds": 3700}})
        await clicked(client, [{"token": first}, {"token": old}])  # Their window has ended: they are surplus.
        assert await counts(client, path) == [2, 0]
        new, *_ = (each["token"] for each in (await acted(client, path, "acts", count=3))["actions"])
        await clicked(client, new)
        await client.patch(path, json={"expiry": HOUR | {"after_seconds": after}})
        await clicked(client, [{"token": first}, {"token": old}])
        assert await counts(client, path) == [3, 2]
    else:
        new = first
    clock.now += 29 * 86_400
    await clicked(client, new)
    assert (await counts(client, path))[0] == (3 if after else 2)


async def test_without_a_window_it_is_good_for_thirty_days(client, create, clock):
    path = await create(**REWARDS)
    first, second = (each["token"] for each in (await acted(client, path, "acts", count=2))["actions"])
    clock.now += 30 * 86_400 - 2
    await clicked(client, first)
    clock.now += 2
    await clicked(client, second, 410, "expired_token")


async def test_a_large_batch_of_tokens_is_read_in_pieces(client, create):
    path = await create(learner={"kind": "fixed", "n_arms": 2}, **REWARDS)
    actions = (await acted(client, path, "acts", count=300))["actions"]
    events = [{"token": each["token"], "reward": 1} for each in actions]
    assert (await client.post(f"{path}/feedbacks", json={"events": events})).json()["applied"] == 300


async def test_surplus_and_removed_clicks_are_no_errors(client, create):
    path = await create(learner={"kind": "dexp3", "arms": ["a", "b"]}, **REWARDS)
    surplus = await acted(client, path)
    await client.post(f"{path}/feedback", json={"arm": surplus["arm"], "reward": 1})
    await clicked(client, surplus["token"])
    removed = await acted(client, path)
    await client.patch(f"{path}/arms", json={"remove": [removed["label"]], "add": ["c"]})
    await clicked(client, removed["token"])
    assert await counts(client, path, "feedbacks", "removed") == [1, 1]
    metrics = (await client.get("/metrics")).text
    for outcome in ("applied", "surplus", "removed"):
        assert f'bandit_events_total{{outcome="{outcome}"}} 1.0' in metrics


async def test_forged_and_foreign_tokens_are_bad(client, create, make_client):
    token = (await acted(client, await create(**REWARDS)))["token"]
    other = await make_client(clicks_per_second=0)
    for text in (forged(token), "nothing", "é", token + "A", f'"{token}"', token.split(".")[0]):
        await clicked(client, text, 403, "bad_token", [0])
    await clicked(other, token, 403, "bad_token", [0])


async def test_a_deleted_session_and_an_earlier_making_have_expired(client, create, clock):
    path = await create(session_id="s", **REWARDS)
    token = (await acted(client, path))["token"]
    await client.delete(path)
    await clicked(client, token, 410, "expired_token", [0])
    clock.now += 1e-4
    await create(session_id="s", **REWARDS)
    await acted(client, path)
    await clicked(client, token, 410, "expired_token", [0])
    assert await counts(client, path) == [0, 1]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "token"),
        ({"token": ""}, "token"),
        ({"token": 1}, "token"),
        ([], "events"),
        ([{"token": "t"}] * 101, "events"),
        ("", "token"),
        ("[{}", None),
        ('{"token":"t","token":"t"}', None),
        ('[{"token":"t"}],"events":[]', None),
        (["t"], "events[0]"),
        *(({"token": "t", name: 1}, name) for name in ("reward", "loss", "arm", "slot", "event_id")),
        ({"token": "t", "goal": ""}, "goal"),
    ],
)
async def test_anything_else_is_no_click(client, body, field):
    answer = await clicked(client, body, 422, "invalid_request")
    assert field is None or answer.json()["errors"][0]["field"] == field


async def test_a_goal_needs_a_session_with_goals(client, create):
    path = await create(**REWARDS)
    token = (await acted(client, path))["token"]
    answer = await clicked(client, {"token": token, "goal": "click"}, 422, "invalid_request", [0])
    assert answer.json()["errors"][0]["field"] == "goal"
    assert await counts(client, path) == [0, 1]


async def test_with_goals_a_click_names_one(client, create):
    path = await create(goals={"click": 0.2, "purchase": 1.0}, **REWARDS)
    first, second = (each["token"] for each in (await acted(client, path, "acts", count=2))["actions"])
    for goal in ({}, {"goal": "cart"}):
        answer = await clicked(
            client, [{"token": first, "goal": "click"}, {"token": second, **goal}], 422, "invalid_request", [1]
        )
        assert answer.json()["errors"][0]["field"] == "goal"
        assert "click, purchase" in answer.json()["detail"]
    await clicked(client, [{"token": first, "goal": "click"}, {"token": second, "goal": "purchase"}])
    assert await counts(client, path, "feedbacks", "mean_reward") == [2, 0.6]
    assert (await client.get(path)).json()["goals"]["purchase"] == {"value": 1.0, "events": 1}


async def test_a_token_may_improve_what_it_counted_after_its_window_too(client, create, clock):
    """But one that was never applied has ended with its window."""
    options = {"updates": {"within_seconds": 7200}, "goals": {"click": 0.2, "purchase": 1.0}}
    learner = {"kind": "multiscale_tsallis", "n_arms": 2}
    path = await create(learner=learner, expiry=HOUR, decision_log={"max_entries": 99}, **REWARDS, **options)
    actions = (await acted(client, path, "acts", count=3))["actions"]
    first, second, third = ({"token": each["token"]} for each in actions)
    await clicked(client, [first | {"goal": "click"}] * 2)
    assert (await client.post(f"{path}/feedback", json=third | {"reward": None})).json()["voided"] == 1
    clock.now += 7100
    for unapplied in (second, third):
        await clicked(client, unapplied | {"goal": "purchase"}, 410, "expired_token", [0])
        both = [first | {"goal": "purchase"}, unapplied | {"goal": "click"}]
        await clicked(client, both, 410, "expired_token", [1])
    assert await counts(client, path, "mean_reward") == [0.1]
    await clicked(client, first | {"goal": "purchase"})
    await clicked(client, first | {"goal": "click"})
    assert await counts(client, path, "feedbacks", "mean_reward") == [1, 0.5]
    updated = (await client.get(f"{path}/decisions")).json()["decisions"][-1]
    assert (updated["outcome"], updated["slot"], updated["reward"]) == ("updated", 1, 1.0)
    clock.now += 101
    await clicked(client, first | {"goal": "purchase"}, 410, "expired_token", [0])
    both = {"events": [first | {"goal": "purchase"}, second | {"goal": "click"}]}
    late = await client.post(f"{path}/feedbacks", json=both)
    assert (late.json()["duplicates"], late.json()["surplus"]) == (1, 1)


async def test_a_list_is_judged_whole(client, create):
    """What is wrong comes before what is forged, and that before what has expired; each with its indexes."""
    paths = [await create(session_id=name, **REWARDS) for name in "abc"]
    good, other, gone = [{"token": (await acted(client, path))["token"]} for path in paths]
    await client.delete(paths[2])
    wrong, bad = other | {"goal": "x"}, {"token": forged(good["token"])}
    await clicked(client, [good, gone, bad, wrong, wrong], 422, "invalid_request", [3, 4])
    await clicked(client, [good, gone, bad, other, bad], 403, "bad_token", [2, 4])
    await clicked(client, [bad, bad], 403, "bad_token", [0, 1])
    await clicked(client, [gone, good, gone, other], 410, "expired_token", [0, 2])
    assert await counts(client, paths[0]) == await counts(client, paths[1]) == [0, 1]
    await clicked(client, [good, other, good])
    assert await counts(client, paths[0]) == await counts(client, paths[1]) == [1, 0]


async def test_a_store_that_is_down_counts_nothing(client, create, memory, monkeypatch):
    paths = [await create(session_id=name, **REWARDS) for name in "ab"]
    tokens = [{"token": (await acted(client, path))["token"]} for path in paths]

    async def fails(commit):
        raise ConnectionError

    monkeypatch.setattr(memory, "commit", fails)
    await clicked(client, tokens, 500, "internal_error")


# -- What browsers send, and what their pages may read.


@pytest.mark.parametrize("kind", [None, "text/plain", "text/plain;charset=UTF-8", "application/json"])
async def test_a_click_is_text_of_any_kind(client, create, kind):
    path = await create(**REWARDS)
    token = (await acted(client, path))["token"]
    for body in (token, f" {token}\n", json.dumps({"token": token}), json.dumps([{"token": token}])):
        headers = {} if kind is None else {"content-type": kind}
        answer = await client.post("/v1/clicks", content=body.encode(), headers=headers)
        assert (answer.status_code, answer.content) == (204, b"")
    assert await counts(client, path) == [1, 0]


@pytest.mark.parametrize("kind", ["text/html", "application/x-www-form-urlencoded", "text/plain;charset=latin1"])
async def test_other_types_are_refused(client, kind):
    await clicked(client, "t", 415, "unsupported_media_type", **{"content-type": kind})


async def test_no_key_is_needed_and_a_body_is_small(make_client):
    keys = SecretText(json.dumps([{"name": "a", "role": "admin", "key": "0123456789abcdef"}]))
    client = await make_client(api_keys=keys, clicks_per_second=0)

    await clicked(client, "t", 403, "bad_token", **{"x-api-key": "wrong"})
    assert (await client.get("/v1/clicks.js")).status_code == 200
    assert (await client.options("/v1/clicks")).status_code == 204
    await clicked(client, "t" * 100_001, 413, "payload_too_large")
    await clicked(client, b"[" + b"{}," * 30_000 + b"{}]", 422, "invalid_request")


@pytest.mark.parametrize(
    ("allowed", "origin", "answered"),
    [
        ("", "https://shop.example", None),
        ("https://shop.example, https://b.example", "https://shop.example", "https://shop.example"),
        ("https://shop.example", "HTTPS://Shop.Example", "HTTPS://Shop.Example"),
        ("https://shop.example", "https://evil.example", None),
        ("https://shop.example", "", None),
        ("*", "null", "*"),
    ],
)
async def test_pages_of_listed_origins_may_read_the_answer(make_client, allowed, origin, answered):
    client = await make_client(allowed_origins=allowed, clicks_per_second=0)
    body = {"session_id": "s", "learner": {"kind": "dexp3", "n_arms": 3}, **REWARDS}
    await client.post("/v1/sessions", json=body)
    token = (await acted(client, "/v1/sessions/s"))["token"]
    for answer in (
        await clicked(client, token, 204, **ORIGIN | {"origin": origin}),
        await clicked(client, "t", 403, "bad_token", **ORIGIN | {"origin": origin}),
        await clicked(client, {}, 422, "invalid_request", **ORIGIN | {"origin": origin}),
        await client.options("/v1/clicks", headers={"origin": origin, "access-control-request-method": "POST"}),
    ):
        assert answer.headers.get("access-control-allow-origin") == answered
        assert answer.headers["vary"] == "Origin"
        assert "access-control-allow-credentials" not in answer.headers
    assert (answer.status_code, answer.headers["access-control-max-age"]) == (204, "86400")
    assert answer.headers["access-control-allow-methods"] == "POST"
    assert answer.headers["access-control-allow-headers"] == "Content-Type"
    assert await counts(client, "/v1/sessions/s") == [1, 0]  # Whoever may read the answer.
    for other in ("/v1/sessions", "/v1/sessions/s/feedback"):
        assert (await client.options(other, headers={"origin": origin})).status_code == 405
        assert "access-control-allow-origin" not in (await client.get(other, headers={"origin": origin})).headers


async def test_pages_may_read_the_answer_of_a_service_that_stops(make_client, monkeypatch):
    async def cancelled(*_):
        raise asyncio.CancelledError

    monkeypatch.setattr("service.api.routes.service_routes.settle_clicks", cancelled)
    answer = await clicked(await make_client(allowed_origins=ORIGIN["origin"]), "t", 503, "overloaded", **ORIGIN)
    assert answer.headers["access-control-allow-origin"] == ORIGIN["origin"]
    assert answer.headers["vary"] == "Origin"


async def test_the_script_is_small_and_kept_by_browsers(client):
    answer = await client.get("/v1/clicks.js")
    assert answer.headers["content-type"] == "text/javascript; charset=utf-8"
    assert answer.headers["cache-control"] == "public, max-age=3600"
    assert len(gzip.compress(answer.content)) <= 1536
    assert "import" not in answer.text
    versioned = await client.get(f"/v1/clicks.js?v={__version__}")
    assert versioned.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert (await client.get("/v1/clicks.js?v=0")).headers["cache-control"] == "public, max-age=3600"
    again = await client.get("/v1/clicks.js", headers={"if-none-match": f'"x", {answer.headers["etag"]}'})
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", answer.headers["etag"])
    assert (await client.head("/v1/clicks.js")).status_code == 200


# -- How many clicks an address may post.


async def test_an_address_may_post_so_many_tokens_in_a_second(make_client):
    client = await make_client(clicks_per_second=3)
    await clicked(client, [{"token": "t"}] * 2, 403, "bad_token")
    await clicked(client, "t", 403, "bad_token")
    refused = await clicked(client, "t", 429, "too_many_clicks")
    assert (refused.headers["retry-after"], refused.headers["vary"]) == ("1", "Origin")


async def test_tokens_of_wrong_clicks_count_too(make_client):
    client = await make_client(clicks_per_second=2)
    for _ in range(2):
        await clicked(client, {"token": "t", "reward": 1}, 422, "invalid_request")
    await clicked(client, {"token": "t", "reward": 1}, 429, "too_many_clicks")
    client = await make_client(clicks_per_second=2)
    await clicked(client, [{}] * 1000, 422, "invalid_request")
    assert (await clicked(client, "t", 429, "too_many_clicks")).headers["retry-after"] == "50"


def test_a_bucket_holds_the_tokens_of_a_second(clock):
    rates = ClickRates(50, clock)

    def refused(address, tokens):
        try:
            rates.take(address, tokens)
        except TooManyClicksError as error:
            return error.retry_after
        return None

    assert [refused("a", 1) for _ in range(51)] == [None] * 50 + [1]
    assert refused("b", 100) is None  # A whole list, on credit.
    assert refused("b", 1) == 2
    clock.now += 1
    assert refused("a", 50) is None
    clock.now += 0.5
    assert [refused("a", 25), refused("a", 1)] == [None, 1]
    for number in range(MAX_ADDRESSES + 1):
        rates.take(str(number), 1)
    clock.now += 9
    rates.take("c", 1)
    rates.take("d", 1)
    assert ClickRates(0).take("a", 10**9) is None


async def test_clicks_of_one_session_go_to_its_owner(client, create):
    paths = [await create(**REWARDS) for _ in range(2)]
    tokens = [(await acted(client, path))["token"] for path in paths]
    requests, asked = client._transport.app.requests, []

    async def hand_over(scope, body):
        asked.append(scope.get(OWNED))

    requests.hand_over = hand_over
    await clicked(client, tokens[0])
    await clicked(client, [{"token": each} for each in tokens])
    await client.get(paths[0])
    requests.hand_over = None

    assert asked == [paths[0].rpartition("/")[2], None, None]
    assert [await counts(client, path) for path in paths] == [[1, 0]] * 2
