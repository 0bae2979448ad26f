"""Documents with right checksums and other numbers: refused with the part, or as good as any session."""

import random
import struct
import tracemalloc
import zlib

import pytest

from service.sessions.transfer import _pack, _parts
from service.store.memory import MemoryStore
from tests.support import vectors
from tests.support.changed_documents import changed, joined, sealed, with_checksum
from tests.support.examples import examples
from tests.support.one_session import PATH, answered, made

SHOWN = ("", "/arms?sort=-mean", "/segments", "/history", "/decisions", "?segment=home", "/arms?segment=")
SHOWN += ("/export",)
LABELS = {"arms": ["a", "b", "c"]}
WINDOW = {"expiry": {"after_seconds": 60, "default_loss": 1}, "decision_log": {"max_entries": 100}}


def sessions():
    """The fields of a session of each learner, plain and with a window, and of some others."""
    found = {}
    for kind in sorted(vectors.kinds()):
        learner = vectors.traces(kind)[0]["spec"]
        found[kind] = {"learner": learner, "idle_ttl_seconds": 1000}
        named = {name: value for name, value in learner.items() if name not in ("n_arms", "probabilities")} | LABELS
        in_time = {"learner": learner, "expiry": {"after_seconds": 60, "default_loss": None}}
        found[f"{kind} with a window"] = {"learner": named, **WINDOW} if "n_arms" in learner else in_time
    for kind in ("centred_tsallis", "multiscale_tsallis"):
        fields = {"learner": {"kind": kind, **LABELS}, "segments": {"max": 5}}
        found[f"{kind} with segments"] = fields | {"expiry": {"after_seconds": 60, "default_loss": None}}
    features = {"features": {"age": {"kind": "number", "range": [0, 1]}, "zip": {"kind": "category", "buckets": 3}}}
    found["features"] = {"learner": {"kind": "multiscale_tsallis", **LABELS}, **features, **WINDOW}
    found["many arms"] = {"learner": {"kind": "dexp3", "n_arms": 1500}}
    found["raw"] = {"learner": {"kind": "multiscale_tsallis", "n_arms": 3}, "normalize_losses": False}
    return found


async def played(client, fields):
    """Use a session in every way; the answers that blame the service."""
    wrong, learner, has_arms = [], fields["learner"], "dim" not in fields["learner"]

    async def call(method, path, body=None):
        answer = await client.request(method, path, json=body)
        if answer.status_code >= 500:
            wrong.append(f"{method} {path} {body}: {answer.text}")
        return answer.json()

    def event(action, **more):
        if has_arms:
            return {name: action.get(name, 1) for name in ("arm", "slot")} | {"loss": 0.3, **more}
        numbers = [0.25 * each for each in range(1, learner["dim"] + 2)]
        return {"gradient": numbers[1:]} if learner["kind"] in ("ogd", "solid") else {"losses": numbers}

    segments = [{}, {"segment": "home"}] if "segments" in fields else [{}]
    for segment in 2 * segments:
        action = await call("POST", f"{PATH}/act", segment)
        await call("POST", f"{PATH}/feedback", event(action, event_id=f"e{action.get('slot')}", **segment))
        actions = (await call("POST", f"{PATH}/acts", {"count": 6, **segment})).get("actions", [])
        events = [event(each, **segment) for each in actions[::2]]
        events += [{"arm": arm, "loss": 0.9, "slot": arm + 1, **segment} for arm in range(3 * has_arms)]
        await call("POST", f"{PATH}/feedbacks?on_surplus=skip&on_invalid=skip", {"events": events})
    for path in SHOWN:
        await call("GET", PATH + path)
    await call("PATCH", f"{PATH}/arms", {"add": ["x", "y"], "remove": ["b"], "pause": ["c"]})
    await call("PATCH", PATH, {"expiry": {"after_seconds": 9} | ({"default_loss": None} if has_arms else {})})
    for body in ({}, {"eligible": [1]}, segments[-1]):
        await call("POST", f"{PATH}/act", body)
    return wrong


async def document_of(client, fields):
    """A session that was used, exported and deleted."""
    await made(client, seed=7, **fields)
    assert await played(client, fields) == []
    exported = await answered(client, "GET", f"{PATH}/export")
    await client.delete(PATH)
    return exported


async def tried(clients, fields, document):
    """Import a document and use the session on each service; the status, and what is not as it should be."""
    answer = await clients[0].post("/v1/sessions/import", json=document)
    if answer.status_code != 201:
        return answer.status_code, [] if answer.json().get("errors") else [answer.text]
    wrong = [each for client in reversed(clients) for each in await played(client, fields)]
    listed = (await clients[1].get("/v1/sessions")).json()["sessions"]
    wrong += [f"listed: {each}" for each in listed if "slot" not in each]
    assert (await clients[0].delete(PATH)).status_code == 204
    return 201, wrong


async def test_whatever_is_changed_is_refused_or_works(make_client):
    """Two services on one store: what one commits, the other reads."""
    store, kinds, statuses = MemoryStore(), sessions(), set()
    clients = [await make_client(store), await make_client(store)]
    kept = {name: await document_of(clients[0], fields) for name, fields in kinds.items()}
    for seed in range(examples(200)):
        rng = random.Random(seed)
        name = rng.choice(sorted(kept))
        status, wrong = await tried(clients, kinds[name], changed(kept[name], rng))
        statuses.add(status)
        assert wrong == [], (seed, name)
    assert statuses == {201, 422}


def record(key, body, slot=b""):
    """A record with its checksum, or a segment behind its slot."""
    return _pack({key: slot + body + zlib.crc32(key + b":" + body).to_bytes(4, "little")})


def of_arm(arm, *counts):
    return _pack({struct.pack(">I", arm): struct.pack("<6d", *counts)})


def in_state(at, code, number):
    return lambda state: with_checksum(state[:at] + struct.pack(code, number) + state[at + 8 :])


SEGMENT = struct.Struct("<BqdqqqddqqqdddIIBB")
NAMED = {
    "last_act_at": ("state", in_state(85, "<d", 1e12)),
    "time": ("state", in_state(53, "<d", 1e300)),
    "mean_loss": ("state", in_state(77, "<d", 1e300)),
    "slot": ("state", in_state(5, "<q", -1)),
    "total_delay": ("state", in_state(37, "<q", 2**53 + 1)),
    "buckets of 40 digits": ("records", record(b"b" + b"7" * 40, bytes(8))),
    "buckets written in another way": ("records", record(b"b007", bytes(8))),
    "buckets of more arms than the session": ("records", record(b"b7", struct.pack("<q", 2**24))),
    "more acts in a bucket than a number holds": ("records", record(b"b7", struct.pack("<3q", -2, 0, 2**63 - 1))),
    "deadlines": ("event_ids", _pack({struct.pack(">d", float("inf")): _pack({bytes(16): b""})})),
    "no ids": ("event_ids", _pack({struct.pack(">d", 1e9): b""})),
    "a longer id": ("event_ids", _pack({struct.pack(">d", 1e9): _pack({bytes(17): b""})})),
    "counts": ("counts", of_arm(0, -1.0, 0, 0, 0, 0, 0)),
    "counts of no arm": ("counts", of_arm(99, 1, 0, 0, 0, 0, 0)),
    "more losses than events": ("counts", of_arm(0, 1, 9, 0, 0, 0, 0)),
    "4e9 arms": ("segments", record(b"home", SEGMENT.pack(1, *[0] * 13, 2**32 - 1, 0, 0, 0), bytes(8))),
    "4e9 buckets": ("segments", record(b"home", SEGMENT.pack(1, *[0] * 13, 3, 2**32 - 1, 0, 0), bytes(8))),
}


@pytest.mark.parametrize("name", NAMED)
async def test_what_is_refused_is_named(client, name):
    part, changed_part = NAMED[name]
    fields = {"learner": {"kind": "multiscale_tsallis", **LABELS}, "segments": {"max": 5}}
    await client.post("/v1/sessions", json={"session_id": "s", **fields, **WINDOW})
    await client.post(f"{PATH}/act", json={"segment": "home"})
    document = (await client.get(f"{PATH}/export")).json()
    data = changed_part(joined(document[part])) if part == "state" else changed_part

    answer = await client.post("/v1/sessions/import", json=sealed(document | {part: _parts(data)}))

    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")
    (error,) = answer.json()["errors"]
    assert error["field"].startswith(part)
    assert part != "state" or name in error["field"] + error["message"]


async def test_no_session_that_had_more_arms_than_any_may_is_taken(client):
    await made(client, learner={"kind": "dexp3", **LABELS})
    await client.patch(f"{PATH}/arms", json={"add": ["d"]})
    document = (await client.get(f"{PATH}/export")).json()
    await client.delete(PATH)
    document["specification"]["arms"]["size"] = 2**31
    state = joined(document["state"])
    state = with_checksum(state[:115] + struct.pack("<I", 2**31) + state[119:])

    answer = await client.post("/v1/sessions/import", json=sealed(document | {"state": _parts(state)}))

    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, "specification.arms")


async def test_memory_is_bounded_by_the_document(client):
    """Of records that say that each of them counts 16 million arms."""
    document = await document_of(client, {"learner": {"kind": "dexp3", "n_arms": 3}, **WINDOW})
    records = b"".join(record(b"b%d" % number, struct.pack("<q", 2**24)) for number in range(20_000))
    tracemalloc.start()
    try:
        answer = await client.post("/v1/sessions/import", json=sealed(document | {"records": _parts(records)}))
        assert tracemalloc.get_traced_memory()[1] < 40 * 2**20
    finally:
        tracemalloc.stop()
    assert answer.status_code == 422
