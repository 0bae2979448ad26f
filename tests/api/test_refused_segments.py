"""Segments that do not go with a session, and names that do not fit."""

from __future__ import annotations

import pytest

from tests.support.bodies import SEGMENTED


@pytest.mark.parametrize(
    "fields",
    [
        {"segments": {"max": 0}},
        {"segments": {"max": 100_001}},
        {"segments": {}},
        {"segments": True},
        {"segments": {"max": 2}, "learner": {"kind": "dexp3", "n_arms": 3}},
        {"segments": {"max": 2}, "expiry": {"after_seconds": 10, "default_loss": 1}},
        {
            "segments": {"max": 2},
            "learner": {"kind": "multiscale_tsallis", "n_arms": 3},
            "expiry": {"after_seconds": 10, "default_loss": 1, "provisional": False},
        },
    ],
)
async def test_what_segments_do_not_go_with_is_refused(client, fields):
    answer = await client.post("/v1/sessions", json=SEGMENTED | fields)

    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")


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
