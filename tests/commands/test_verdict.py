"""``verdict`` and ``compare``: what they say of a control group, of none, of a halt, and of two sessions."""

import json

import httpx
import pytest

from service.commands import sessions
from tests.client.conftest import VIEW, scripted

GROUPS = {"learner": {"acts": 9012, "outstanding": 2, "mean_reward": 0.1101}}
GROUPS |= {"control": {"acts": 988, "outstanding": 0, "mean_reward": 0.0781}}
FOUND = {"difference": 0.032, "low": 0.0212, "high": 0.0428, "lift": 0.41, "confidence": 0.95, "is": "better"}
SESSION = VIEW | {"reward_range": [0.0, 1.0], "groups": GROUPS, "verdict": FOUND}
WORSE = FOUND | {"difference": -3.2, "low": -4.28, "high": -2.12, "lift": -0.021, "is": "worse"}
LOSSES = {name: {"acts": 150, "mean_loss": 150.0} for name in GROUPS}
RATED = {"reward_range": None, "loss_range": [0.0, 1000.0], "groups": LOSSES, "verdict": WORSE}
HINTS = [{"code": "halted", "message": "All acts are control acts."}, {"code": "few_events", "message": "."}]
SAID = [
    (
        {},
        """Compared with the control, the learner is better by 3.2 points, between 2.1 and 4.3 (95 % sure). That is
a mean reward of 0.1101 against 0.0781 (41.0 % better), from 9,012 acts of the learner and 988 of the control.""",
    ),
    (
        {"verdict": FOUND | {"low": -0.0012, "is": "unclear"}, "hints": HINTS},
        """halted: All acts are control acts. Compared with the control, the gain of the learner is unclear: 3.2
points, between -0.1 and 4.3 (95 % sure). That is a mean reward of 0.1101 against 0.0781, from 9,012 acts of
the learner and 988 of the control.""",
    ),
    (
        RATED,
        """Compared with the control, the learner is worse by 3.2, between 2.1 and 4.3 (95 % sure). That is a mean
loss of 150 against 150 (2.1 % worse), from 150 acts of the learner and 150 of the control.""",
    ),
    (
        {"verdict": None},
        """There is no verdict yet: it needs 200 acts whose outcome is known, some of each group. So far there were
9,012 acts of the learner and 988 of the control.""",
    ),
    (
        {"verdict": None, "expiry": {"default_reward": 0}},
        """There is no verdict yet: it needs 200 acts since the halt, some of each group. So far there were 9,012
acts of the learner and 988 of the control.""",
    ),
    (
        {"groups": None, "verdict": None, "learner": {"kind": "dbgd", "dim": 2}},
        "s is a session over points, and has no verdict: control groups are for sessions over arms.",
    ),
    (
        {"groups": None, "verdict": None},
        """s has no control group, so nobody knows its gain. With one, one act in ten is drawn by chance, and after
200 acts there is a verdict:
curl -X PATCH -H 'Content-Type: application/json' http://service/v1/sessions/s -d '{"control": {"share": 0.1}}'""",
    ),
]


@pytest.mark.parametrize(("fields", "says"), SAID)
def test_a_verdict_is_two_sentences(command, monkeypatch, fields, says):
    answer = httpx.Response(200, json=SESSION | fields)
    monkeypatch.setattr(sessions, "client_of", lambda _: scripted(answer)[0])

    code, out, _ = command("verdict", "s", "--url", "http://service/")
    assert (code, out.split()) == (0, says.split())
    code, out, _ = command("verdict", "s", "--json")
    assert (code, json.loads(out)["groups"]) == (0, (SESSION | fields)["groups"])


def test_two_sessions_are_compared_in_the_same_words(command, monkeypatch):
    compared = httpx.Response(200, json={"groups": GROUPS, "verdict": FOUND})
    bandits, _ = scripted(compared, httpx.Response(200, json=VIEW | {"reward_range": [0.0, 1.0]}))
    monkeypatch.setattr(sessions, "client_of", lambda _: bandits)
    code, out, _ = command("compare", "new", "old")

    assert code == 0
    assert out.startswith("Compared with old, new is better by 3.2 points, between 2.1 and 4.3 (95 % sure). ")
