"""What a newer version stored, or exported: told from damage, left as it is, and to be asked for again."""

from __future__ import annotations

import zlib
from base64 import b64decode, b64encode

import pytest

from service.errors import NewerSchemaError
from service.learners.dexp3 import Dexp3Spec
from service.models.specification import ExpirySpec, Specification
from service.serialization.state import NEWEST
from service.sessions.act import Act
from service.sessions.expiry_sweeper import Sweeper
from service.store.base import Commit, Committed, Written
from service.store.memory import MemoryStore
from tests.support.sessions import sessions_on
from tests.support.transfer import PATH, exported, sealed, start

SPEC, BESIDE = b'{"of":"which nothing is known"}', {b"1": b"a record"}


def newer(state):
    body = bytes([NEWEST + 1]) + state[1:-4] + b"more"
    return body + zlib.crc32(body).to_bytes(4, "little")


async def upgrade(store, session_id="s"):
    """Write a session as a newer version would, and return it."""
    before = await store.load(session_id)
    state = newer(before.state)
    written = Written("feed-1", state, spec=SPEC, records=BESIDE, summary=b"\2new", about=b"new")
    assert await store.commit(Commit(session_id, "feed", before.version, written)) == Committed()
    return await store.load(session_id)


CALLS = {
    "GET": ["", "/arms", "/history", "/export"],
    "POST": ["/act", "/feedback", "/acts"],
    "DELETE": [""],
    "PATCH": ["", "/arms"],
}
BODIES = {"/feedback": {"arm": 0, "loss": 0.5}, "/acts": {"count": 2}, "/arms": {"add": ["y"]}, "": {"floor": 0.0}}


async def test_a_session_of_a_newer_version_is_to_be_asked_for_again_and_left_alone(make_client, store):
    """Also by a worker that has an older version of it in its cache."""
    client, other = await make_client(store), await make_client(store)
    await start(client)
    await client.post("/v1/sessions", json={"session_id": "t", "learner": {"kind": "dexp3", "n_arms": 2}})
    before, whole = await upgrade(store), await store.export("s")

    for method, paths in CALLS.items():
        for path in paths:
            for each in (client, other):
                body = BODIES.get(path) if method in ("POST", "PATCH") else None
                answer = await each.request(method, PATH + path, json=body)
                told = (answer.status_code, answer.json()["code"], answer.headers["Retry-After"])
                assert told == (503, "newer_schema", "1"), (method, path)
    posted = await client.post("/v1/sessions", json={"session_id": "s", "learner": {"kind": "dexp3", "n_arms": 2}})
    listed = (await client.get("/v1/sessions")).json()["sessions"]

    assert (posted.status_code, posted.json()["code"]) == (503, "newer_schema")
    assert {each["session_id"]: each.get("code") for each in listed} == {"s": "newer_schema", "t": None}
    assert (await client.post("/v1/sessions/t/act")).status_code == 200
    assert (await store.load("s"), await store.export("s")) == (before, whole)


async def test_what_is_due_in_it_is_not_settled_and_others_are(clock, caplog):
    store = MemoryStore(clock=clock)
    sessions = sessions_on(store)
    for session_id in ("s", "t"):
        expiry = ExpirySpec(after_seconds=64.0)
        await sessions.create(session_id, Specification(learner=Dexp3Spec(n_arms=3), expiry=expiry), None)
        await sessions.submit(session_id, Act(3, 10**6))
    clock.now += 100
    before = await upgrade(store)

    for _ in range(2):
        await Sweeper(store.reminders, sessions).sweep()

    assert await store.load("s") == before
    assert (await sessions.view("t")).count(b'"expired":3') == 1
    assert caplog.text.count("session s") == 1
    clock.now += 100
    assert list(await store.reminders.due(9)) == ["s"]


@pytest.mark.parametrize("what", ["format", "state"])
async def test_a_document_of_a_newer_version_can_be_imported_by_one_of_that_version(make_client, what):
    here, there = await make_client(MemoryStore()), await make_client(MemoryStore())
    await start(here)
    document = await exported(here)
    if what == "format":
        document["format"] += 1
    else:
        (part,) = document["state"]
        part["part"] = b64encode(newer(b64decode(part["part"]))).decode()
        document["specification"] = {"of": "which nothing is known"}

    answer = await there.post("/v1/sessions/import", json=sealed(document))

    assert (answer.status_code, answer.json()["code"]) == (503, NewerSchemaError.code)
    assert (await there.get(PATH)).status_code == 404
