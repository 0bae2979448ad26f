"""A session that is exported, and documents that are sealed as exports are."""

import hashlib
import json
import random

PATH = "/v1/sessions/s"
LEARNERS = {
    "dexp3": {"kind": "dexp3", "arms": ["a", "b", "c"]},
    "exp3": {"kind": "exp3", "arms": ["a", "b", "c"], "learning_rate": 0.1},
    "centred_tsallis": {"kind": "centred_tsallis", "arms": ["a", "b", "c"]},
}


async def use(client, steps, seed):
    """Acts and events, from a seed; the answers."""
    rng, answers = random.Random(seed), []
    for n in range(steps):
        action = (await client.post(f"{PATH}/act")).json()
        answers.append(action)
        if rng.random() < 0.6:
            event = {"arm": action["arm"], "loss": rng.random(), "slot": action["slot"], "event_id": f"{seed}-{n}"}
            answers.append((await client.post(f"{PATH}/feedback", json=event)).json())
    return answers


async def start(client, **fields):
    body = {"session_id": "s", "learner": LEARNERS["dexp3"], "seed": 7}
    answer = await client.post("/v1/sessions", json=body | fields)
    assert answer.status_code == 201, answer.text
    await use(client, 20, 1)
    await client.patch(f"{PATH}/arms", json={"remove": ["b"], "add": ["x"]})


def sealed(document):
    """A document with the digest of what is in it."""
    fields = {name: value for name, value in document.items() if name != "sha256"}
    canonical = json.dumps(fields, sort_keys=True, separators=(",", ":"))
    return fields | {"sha256": hashlib.sha256(canonical.encode()).hexdigest()}


async def exported(client):
    answer = await client.get(f"{PATH}/export")
    assert answer.status_code == 200, answer.text
    return answer.json()
