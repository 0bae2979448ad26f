"""Texts that are no Unicode, or longer than any that means something: refused wherever they stand."""

from __future__ import annotations

import pytest

from tests.support.problems import JSON, assert_problem

SESSION = '"learner":{"kind":"dexp3","arms":["a","b"]}'
PLACES = [
    ("POST", "", '{"session_id":"%s",' + SESSION + "}"),
    ("POST", "", '{"learner":{"kind":"%s","n_arms":2}}'),
    ("POST", "", '{"learner":{"kind":"dexp3","arms":["%s"]}}'),
    ("POST", "", '{"learner":{"kind":"dbgd","dim":1,"feasible_set":{"kind":"%s"}}}'),
    ("POST", "", '{"learner":{"kind":"clw","n_arms":2,"max_delay":1,"learning_rate":1,"schedule":"%s"}}'),
    ("POST", "", '{"%s":1,' + SESSION + "}"),
    ("POST", "/s/act", '{"%s":1}'),
    ("POST", "/s/feedback", '{"label":"%s","loss":0.5}'),
    ("POST", "/s/feedback", '{"label":"a","loss":0.5,"event_id":"%s"}'),
    ("POST", "/s/feedbacks", '{"events":[{"label":"%s","loss":0.5}]}'),
    ("PATCH", "/s/arms", '{"add":["%s"]}'),
    ("PATCH", "/s/arms", '{"remove":["%s"]}'),
]


@pytest.mark.parametrize("key", [{}, {"Idempotency-Key": "k"}], ids=["plain", "keyed"])
@pytest.mark.parametrize(
    "text",
    [r"\ud800", r"x\udfff", r"\ude00\ud83d", r"\ud83dA", "a" * 70_000],
    ids=["high", "low", "pair in the wrong order", "half a pair", "long"],
)
@pytest.mark.parametrize(("method", "call", "body"), PLACES, ids=lambda place: place[:60])
async def test_they_are_refused_and_the_answer_is_small_and_valid(client, method, call, body, text, key):
    created = await client.post("/v1/sessions", content=f'{{"session_id":"s",{SESSION}}}', headers=JSON)
    await client.post("/v1/sessions/s/act")
    before = (await client.get("/v1/sessions/s")).json()

    answer = await client.request(
        method, f"/v1/sessions{call}", content=body.replace("%s", text), headers=JSON | key
    )

    assert created.status_code == 201
    assert_problem(answer, 422, "invalid_request")
    assert text[-600:] not in answer.text
    assert (await client.get("/v1/sessions/s")).json() == before
