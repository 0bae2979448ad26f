"""``acts`` and ``feedbacks`` do, byte for byte, what as many calls of ``act`` and ``feedback`` do."""

from __future__ import annotations

import json

import pytest

from service.learners import REGISTRY
from tests.support.vectors import over_arms, with_eligible_arms

LOG = {"decision_log": {"max_entries": 10_000}}
LABELS = ["a", "b", 'quote "', "ü", "e"]
SESSIONS = {
    **{kind: {"learner": {"kind": kind, "n_arms": 5} | fields} for kind, fields in over_arms().items()},
    "labels": {"learner": {"kind": "dexp3", "arms": LABELS}},
    "floor": {"learner": {"kind": "fixed", "arms": LABELS}, "floor": 0.1},
    "expiry": {"learner": {"kind": "dexp3", "n_arms": 5}, "expiry": {"after_seconds": 3600}},
    "provisional": {
        "learner": {"kind": "multiscale_tsallis", "n_arms": 5},
        "expiry": {"after_seconds": 3600, "default_loss": 1.0},
    },
    "open slots": {"learner": {"kind": "exp3", "n_arms": 5, "learning_rate": 0.1, "max_open_slots": 40}},
    "segments": {"learner": {"kind": "centred_tsallis", "n_arms": 5}, "segments": {"max": 3}},
}
TAKE_ELIGIBLE = with_eligible_arms()
CASES = [(name, {}) for name in SESSIONS] + [
    (name, body)
    for name, fields in SESSIONS.items()
    if fields["learner"]["kind"] in TAKE_ELIGIBLE
    for body in ({"eligible": [0, 2, 9]}, {"exclude": [1]})
]


async def decisions(client, path):
    page = (await client.get(f"{path}/decisions", params={"limit": 1000})).json()["decisions"]
    return [{name: value for name, value in each.items() if name != "at"} for each in page]


def event_of(action, kind):
    event = {"arm": action["arm"], "loss": action["slot"] * 37 % 100 / 99, "event_id": f"e-{action['slot']}"}
    takes_slot = REGISTRY[kind].model_validate(SESSIONS[kind]["learner"]).build().information == "slot"
    return event | ({"slot": action["slot"]} if takes_slot else {})


@pytest.mark.parametrize(("name", "body"), CASES)
async def test_together_is_one_by_one(client, create, name, body):
    kind = SESSIONS[name]["learner"]["kind"]
    one, many = [await create(**SESSIONS[name], **LOG) for _ in range(2)]
    for count in (70, 1, 9):
        singles = [(await client.post(f"{one}/act", json=body)).content for _ in range(count)]
        skipped = b',"skipped":1' if "eligible" in body else b""
        singles = [each.removesuffix(skipped + b"}") + b"}" for each in singles]

        batch = (await client.post(f"{many}/acts", json={"count": count, **body})).content

        assert batch == b'{"actions":[%b]%b}' % (b",".join(singles), skipped)
        events = [event_of(action, kind) for action in json.loads(batch)["actions"][-40::2]]
        settled = [(await client.post(f"{one}/feedback", json=event)).json() for event in events]
        together = (await client.post(f"{many}/feedbacks", json={"events": events})).json()
        assert together == settled[-1] | {"applied": len(events)}
    assert await decisions(client, one) == await decisions(client, many)
    arms = [(await client.get(f"{path}/arms")).json()["arms"] for path in (one, many)]
    assert arms[0] == arms[1]
    assert [sum(arm[count] for arm in arms[0]) for count in ("acts", "feedbacks")] == [80, 26]
    views = [(await client.get(path)).json() for path in (one, many)]
    for field in ("probabilities", "mean_loss", "outstanding", "total_delay"):
        assert views[0][field] == views[1][field]
