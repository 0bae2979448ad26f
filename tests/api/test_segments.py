"""Segments over HTTP: acts and events that name who asks, what is shown of them, and what they do not go with."""

import random

import numpy as np
import pytest

from service.engine.ledger import ArmFeedback
from service.models.specification import Specification
from service.models.stored import Stored
from service.store.memory import MemoryStore
from tests.api.test_slots import BAD, ascii_json
from tests.support.bodies import SEGMENTED
from tests.support.one_session import moved, pages

CLICKS = {"learner": {"kind": "multiscale_tsallis", "arms": ["a", "b", "c"]}, "segments": {"max": 4}, "seed": 4}


PROVISIONAL = {"reward_range": [0, 1], "expiry": {"after_seconds": 1000, "default_reward": 0}}


async def play(client, path, run, turns, word="loss"):
    """Act and answer over HTTP as in process, with the same numbers; segments come and go."""
    chance, waiting = random.Random(6), []
    for _ in range(turns):
        segment = chance.choice(["", "de", "fr", "it", "es", "pt"])
        body = {"segment": segment} if segment else {}
        action = (await client.post(f"{path}/act", json=body)).json()
        expected = run.act(None, segment)
        assert (action["slot"], action["arm"], action["probability"]) == expected[:3]
        waiting.append((expected.arm, segment))
        if len(waiting) > 4:
            arm, segment = waiting.pop(chance.randrange(4))
            loss = 0.25 if chance.random() < 0.3 + 0.2 * arm else 1.0
            fate = chance.random()
            event = {"arm": arm, word: loss if word == "loss" else 1 - loss}
            event |= {"segment": segment} if segment else {}
            feedback = ArmFeedback(arm, loss, segment=segment)
            if fate < 0.1:
                event[word] = None
                run.void(feedback)
            else:
                run.settle(feedback)
            assert (await client.post(f"{path}/feedback", json=event)).status_code == 200


@pytest.mark.parametrize(
    ("fields", "word"),
    [(SEGMENTED, "loss"), (CLICKS | PROVISIONAL, "reward"), (SEGMENTED | {"floor": 0.2}, "loss")],
)
async def test_sessions_give_the_numbers_of_a_run_in_process(client, create, fields, word):
    path, run = await create(**fields), Stored.of(Specification.model_validate(fields)).start()

    await play(client, path, run, 40, word)

    view = (await client.get(path)).json()
    assert view["probabilities"] == run.probabilities.tolist()
    assert view["segments"] == run.shared.kept == fields["segments"]["max"]
    assert view["outstanding"] == run.ledger.outstanding
    listed = (await client.get(f"{path}/segments")).json()["segments"]
    assert len(listed) == run.shared.kept
    for row in listed:
        kept = run.current(row["segment"])
        assert (row["slots"], row["feedbacks"]) == (kept.segment.slots, kept.feedbacks)
        shown = (await client.get(path, params={"segment": row["segment"]})).json()
        assert shown["probabilities"] == run.probabilities_of(kept).tolist()


async def test_a_worker_that_forgets_goes_on_with_the_same_numbers(make_client):
    """Two workers on one store, in turns: each finds the records of the other."""
    store = MemoryStore()
    one, other = await make_client(store), await make_client(store)
    run = Stored.of(Specification.model_validate(CLICKS | PROVISIONAL)).start()
    await one.post("/v1/sessions", json={"session_id": "s", **CLICKS, **PROVISIONAL})

    class Both:
        turn = 0

        async def post(self, *args, **kwargs):
            self.turn += 1
            return await (one, other)[self.turn % 3 == 0].post(*args, **kwargs)

    await play(Both(), "/v1/sessions/s", run, 40, "reward")
    assert (await one.get("/v1/sessions/s")).json()["probabilities"] == run.probabilities.tolist()


async def test_surplus_is_judged_by_arm_over_the_session(client, create):
    path = await create(**SEGMENTED)
    arm = (await client.post(f"{path}/act", json={"segment": "a"})).json()["arm"]
    event = {"arm": arm, "loss": 1, "segment": "b"}

    first = await client.post(f"{path}/feedback", json=event)
    second = await client.post(f"{path}/feedbacks?on_surplus=skip", json={"events": [event]})

    assert (first.json()["applied"], second.json()["applied"], second.json()["surplus"]) == (1, 0, 1)
    assert (await client.get(path)).json()["outstanding"] == 0


async def test_arms_that_change_reach_segments_when_they_are_next_used(client, create):
    path = await create(**CLICKS)
    for name in ("left", "right") * 8:
        arm = (await client.post(f"{path}/act", json={"segment": name})).json()["arm"]
        await client.post(f"{path}/feedback", json={"arm": arm, "loss": arm / 2, "segment": name})
    await client.patch(f"{path}/arms", json={"remove": ["a"], "add": ["d", "e"], "pause": ["b"]})

    shown = (await client.get(path, params={"segment": "left"})).json()
    p = np.array(shown["probabilities"])
    assert shown["learner"]["arms"] == ["b", "c", "d", "e"]
    assert len(p) == 4
    assert (p[0], p.sum()) == (0, pytest.approx(1))
    for _ in range(3):
        action = (await client.post(f"{path}/act", json={"segment": "left", "eligible": ["c", "d", "a"]})).json()
        assert action["label"] in "cd"
        assert action["skipped"] == 1
    await client.put(f"{path}/arms", json={"arms": ["x", "y"]})
    action = (await client.post(f"{path}/act", json={"segment": "right"})).json()
    assert action["label"] in "xy"


async def test_windows_end_for_segments_too(client, create, clock):
    path = await create(**CLICKS, **PROVISIONAL)
    await client.post(f"{path}/acts", json={"count": 5, "segment": "a"})
    clock.now += 500
    action = (await client.post(f"{path}/act", json={"segment": "a"})).json()
    await client.post(f"{path}/feedback", json={"label": action["label"], "reward": 1, "segment": "a"})
    before = (await client.get(path, params={"segment": "a"})).json()
    clock.now += 600

    shown = (await client.get(path, params={"segment": "a"})).json()

    assert (before["mean_reward"], before["expired"]) == (1.0, 0)
    assert (shown["slots"], shown["feedbacks"]) == (6, 1)
    # Another act than the one that was clicked may be the oldest of its arm, so that five or four have expired.
    assert shown["mean_reward"] == pytest.approx(1 / (1 + shown["expired"]))
    assert shown["expired"] in (4, 5)
    changed = await client.patch(path, json={"expiry": {"after_seconds": 50, "default_reward": 0}})
    assert changed.status_code == 200
    assert (await client.post(f"{path}/act", json={"segment": "a"})).status_code == 200


async def test_no_patch_brings_a_default_that_is_not_provisional(client, create):
    path = await create(**CLICKS)

    answer = await client.patch(path, json={"expiry": {"after_seconds": 10, "default_loss": 1}})
    cleared = await client.patch(path, json={"expiry": {"after_seconds": 10, "default_loss": None}})

    assert (answer.status_code, cleared.status_code) == (422, 200)


async def test_logs_keys_and_distinct_arms_know_segments(client, create):
    path = await create(**CLICKS | {"decision_log": {"max_entries": 100}})
    body = {"count": 2, "distinct": True, "segment": "a"}
    key = {"Idempotency-Key": "k"}
    first, again = [(await client.post(f"{path}/acts", json=body, headers=key)).json() for _ in range(2)]
    other = await client.post(f"{path}/acts", json=body | {"segment": "b"}, headers={"Idempotency-Key": "k"})
    event = {"arm": first["actions"][0]["arm"], "loss": 1, "segment": "a", "event_id": "e"}
    await client.post(f"{path}/feedbacks", json={"events": [event, event]})
    await client.post(f"{path}/act")

    entries = (await client.get(f"{path}/decisions")).json()["decisions"]
    assert first == again
    assert other.json()["code"] == "idempotency_conflict"
    assert [entry.get("segment") for entry in entries[1:]] == ["a", "a", "a", None]


async def test_an_exported_session_goes_on_bit_for_bit(make_client):
    here, there = await make_client(MemoryStore()), await make_client(MemoryStore())
    await here.post("/v1/sessions", json={"session_id": "s", **CLICKS, **PROVISIONAL})
    run = Stored.of(Specification.model_validate(CLICKS | PROVISIONAL)).start()
    await play(here, "/v1/sessions/s", run, 30, "reward")

    document = await moved(here, there)

    for _ in range(5):
        acts = [(await each.post("/v1/sessions/s/act", json={"segment": "new"})).json() for each in (here, there)]
        assert acts[0] == acts[1]
    pages = [(await each.get("/v1/sessions/s/segments")).json()["segments"] for each in (here, there)]
    assert [{**row, "last_act_at": None} for row in pages[0]] == [{**row, "last_act_at": None} for row in pages[1]]
    assert (await there.post("/v1/sessions/import", json=document | {"segments": []})).status_code == 422


async def test_a_segment_shows_what_is_its_own(client, create):
    path = await create(**SEGMENTED)
    for turn in range(20):
        segment = "left" if turn % 2 else "right"
        arm = (await client.post(f"{path}/act", json={"segment": segment})).json()
        await client.post(f"{path}/feedback", json={"arm": arm["arm"], "loss": turn % 2, "segment": segment})
    last = (await client.post(f"{path}/act", json={"segment": "left"})).json()

    shown = (await client.get(path, params={"segment": "left"})).json()
    arms = (await client.get(f"{path}/arms", params={"segment": "left", "sort": "-probability"})).json()["arms"]
    whole = (await client.get(path)).json()

    assert (shown["segment"], shown["slots"], shown["feedbacks"], shown["mean_loss"]) == ("left", 11, 10, 1.0)
    assert (whole["segments"], whole["slot"], whole["mean_loss"]) == (2, 21, 0.5)
    assert "segment" not in whole
    assert shown["probabilities"][last["arm"]] == last["probability"]
    assert {row["arm"]: row["probability"] for row in arms} == dict(enumerate(shown["probabilities"]))
    assert {*arms[0]} == {"arm", "paused", "probability"}
    assert arms == sorted(arms, key=lambda row: -row["probability"])


async def test_the_list_of_segments_is_sorted_and_paged(client, create):
    path = await create(**SEGMENTED | {"segments": {"max": 10}})
    assert '"segments":0' in (await client.get("/v1/sessions")).text
    for name, count in (("é", 3), ("a", 2), ("b", 1)):
        await client.post(f"{path}/acts", json={"count": count, "segment": name})
    await client.post(f"{path}/act")

    async def names(**query):
        found = [page["segments"] async for page in pages(client, f"{path}/segments", **query)]
        return [row["segment"] for rows in found for row in rows]

    for limit in (1, 2, 100):
        assert await names(limit=limit) == ["", "a", "b", "é"]
        assert await names(limit=limit, sort="-segment") == ["é", "b", "a", ""]
        assert await names(limit=limit, sort="-slots") == ["é", "a", "", "b"]
        assert await names(limit=limit, sort="mean") == ["", "a", "b", "é"]
    wrong = await client.get(f"{path}/segments", params={"cursor": "slots~MQ==", "sort": "mean"})
    assert (wrong.status_code, wrong.json()["errors"][0]["field"]) == (422, "cursor")
    assert (await client.get(f"{path}/segments", params={"cursor": "slots~x", "sort": "slots"})).status_code == 422


async def test_the_segment_played_least_recently_is_dropped(client, create):
    path = await create(**SEGMENTED)
    for name in ("a", "b", "c", "a", "d"):
        action = (await client.post(f"{path}/act", json={"segment": name})).json()

    gone = await client.get(path, params={"segment": "b"})
    kept = [row["segment"] for row in (await client.get(f"{path}/segments")).json()["segments"]]
    late = await client.post(f"{path}/feedback", json={"arm": action["arm"], "loss": 1, "segment": "b"})

    assert (gone.status_code, gone.json()["code"]) == (404, "unknown_segment")
    assert kept == ["a", "c", "d"]
    assert late.json()["applied"] == 1
    assert (await client.get(f"{path}/arms", params={"segment": "b"})).status_code == 404
    # More segments in one batch than are kept.
    for name in "abcdefgh":
        await client.post(f"{path}/act", json={"segment": name})
    kept = [row["segment"] for row in (await client.get(f"{path}/segments")).json()["segments"]]
    assert kept == ["f", "g", "h"]


async def test_many_segments_are_sorted_by_name_only(client, create, monkeypatch):
    monkeypatch.setattr("service.sessions.segments.MAX_SORTED", 2)
    path = await create(**SEGMENTED)
    for name in ("b", "a"):
        await client.post(f"{path}/act", json={"segment": name})
    few = await client.get(f"{path}/segments", params={"sort": "-slots"})
    await client.post(f"{path}/act", json={"segment": "c"})

    many = await client.get(f"{path}/segments", params={"sort": "-slots"})
    by_name = (await client.get(f"{path}/segments")).json()["segments"]

    assert (few.status_code, many.status_code) == (200, 422)
    assert [row["segment"] for row in by_name] == ["a", "b", "c"]


async def test_no_metric_names_a_segment(client, create):
    path = await create(**SEGMENTED)
    action = (await client.post(f"{path}/act", json={"segment": "quetzal"})).json()
    await client.post(f"{path}/feedback", json={"arm": action["arm"], "loss": 1, "segment": "quetzal"})
    await client.get(path, params={"segment": "quetzal"})

    metrics = (await client.get("/metrics")).text

    assert 'route="/v1/sessions/{session_id}/act"' in metrics
    assert "segment=" not in metrics
    assert "quetzal" not in metrics


@pytest.mark.parametrize(
    "fields",
    [
        *({"segments": each} for each in ({"max": 0}, {"max": 100_001}, {}, True)),
        {"learner": {"kind": "dexp3", "n_arms": 3}},
        {"expiry": {"after_seconds": 10, "default_loss": 1}},
        CLICKS | {"expiry": {"after_seconds": 10, "default_loss": 1, "provisional": False}},
    ],
)
async def test_what_segments_do_not_go_with_is_refused(client, fields):
    answer = await client.post("/v1/sessions", json=SEGMENTED | fields)

    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")


@pytest.mark.parametrize("name", [*BAD, "\0", "a\n"], ids=ascii)
async def test_names_that_would_deceive_are_refused_as_labels_are(client, create, name):
    path, headers = await create(**SEGMENTED), {"Content-Type": "application/json"}
    shown = ascii("\ufffd" if name == "\ud800" else name)
    for call, body in (
        ("act", b'{"segment": %s}'),
        ("feedback", b'{"arm": 0, "loss": 1, "segment": %s}'),
        ("feedbacks", b'{"events": [{"arm": 0, "loss": 1, "segment": %s}]}'),
    ):
        answer = await client.post(f"{path}/{call}", content=body % ascii_json(name), headers=headers)
        assert answer.status_code == 422
        assert f"the segment {shown} has a control character" in answer.json()["errors"][0]["message"]
    if name != "\ud800":
        assert (await client.get(path, params={"segment": name})).status_code == 422


async def test_names_that_do_not_fit_are_refused(client, create):
    path, plain = await create(**SEGMENTED), await create()
    for name in ("", "x" * 129, "é" * 65, 3, ["a"]):
        assert (await client.post(f"{path}/act", json={"segment": name})).status_code == 422
    assert (await client.post(f"{path}/act", json={"segment": "é" * 64})).status_code == 200
    for call, body in (
        ("act", {"segment": "a"}),
        ("acts", {"count": 1, "segment": "a"}),
        ("feedback", {"arm": 0, "loss": 1, "segment": "a"}),
    ):
        answer = await client.post(f"{plain}/{call}", json=body)
        assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, "segment")
    for read in (f"{plain}?segment=a", f"{plain}/arms?segment=a", f"{plain}/segments"):
        assert (await client.get(read)).status_code == 422
    sort = await client.get(f"{path}/arms", params={"segment": "é" * 64, "sort": "acts"})
    assert (sort.status_code, sort.json()["errors"][0]["field"]) == (422, "sort")
