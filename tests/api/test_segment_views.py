"""What is shown of segments: one by one, in sorted pages, in sessions and in no metric."""

from __future__ import annotations

import json

from tests.support.bodies import SEGMENTED


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
    for name, count in (("é", 3), ("a", 2), ("b", 1)):
        await client.post(f"{path}/acts", json={"count": count, "segment": name})
    await client.post(f"{path}/act")

    async def names(**query):
        found, cursor = [], None
        while True:
            page = (
                await client.get(f"{path}/segments", params=query | ({"cursor": cursor} if cursor else {}))
            ).json()
            found += [row["segment"] for row in page["segments"]]
            cursor = page["next_cursor"]
            if cursor is None:
                return found

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
    event = {"arm": action["arm"], "loss": 1, "segment": "quetzal"}
    await client.post(f"{path}/feedback", json=event)
    await client.get(path, params={"segment": "quetzal"})

    metrics = (await client.get("/metrics")).text

    assert 'route="/v1/sessions/{session_id}/act"' in metrics
    assert "segment=" not in metrics
    assert "quetzal" not in metrics


async def test_posting_a_session_again_compares_its_segments(client):
    body = {"session_id": "s", **SEGMENTED}
    assert (await client.post("/v1/sessions", json=body)).status_code == 201
    assert (await client.post("/v1/sessions", json=body)).status_code == 200
    other = await client.post("/v1/sessions", json=body | {"segments": {"max": 4}})
    assert [each["field"] for each in other.json()["errors"]] == ["segments"]
    listed = (await client.get("/v1/sessions")).json()["sessions"]
    assert json.dumps(listed[0]["segments"]) == "0"
