"""Export and import: a session goes on elsewhere as it would have here, or is refused whole, as what is newer."""

import json
import random
import struct
import zlib
from base64 import b64decode, b64encode

import pytest

from service.errors import NewerSchemaError
from service.learners.dexp3 import Dexp3Spec
from service.models.specification import ExpirySpec, Specification
from service.serialization.state import NEWEST
from service.sessions.act import Act
from service.sessions.expiry_sweeper import Sweeper
from service.sessions.transfer import _pack, _parts
from service.settings import SecretText
from service.store.base import Commit, Committed, Written
from service.store.memory import MemoryStore
from tests.support.changed_documents import sealed
from tests.support.clock import Clock
from tests.support.one_session import PATH, answered, made
from tests.support.sessions import sessions_on

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
    await made(client, **{"learner": LEARNERS["dexp3"], "seed": 7} | fields)
    await use(client, 20, 1)
    await client.patch(f"{PATH}/arms", json={"remove": ["b"], "add": ["x"]})


async def exported(client):
    return await answered(client, "GET", f"{PATH}/export")


CLW = {"kind": "clw", "arms": ["a", "b", "c"], "max_delay": 9, "learning_rate": 0.1}


EXPIRY = {"after_seconds": 600, "default_loss": 0.5}


def timeless(view):
    return {name: value for name, value in view.items() if name not in ("version", "expires_at")}


@pytest.mark.parametrize("kind", LEARNERS)
@pytest.mark.parametrize("expiry", [None, EXPIRY])
async def test_a_session_goes_on_bit_for_bit_from_each_store_to_memory_and_back(make_client, store, kind, expiry):
    here, there = await make_client(store), await make_client(MemoryStore())
    await start(here, learner=LEARNERS[kind], expiry=expiry)
    view = (await here.get(PATH)).json()
    document = await exported(here)
    assert document == sealed(document)

    imported = await there.post("/v1/sessions/import", json=document)
    assert imported.status_code == 201, imported.text
    assert timeless(imported.json()) == timeless(view)
    assert imported.json()["version"] != view["version"]
    arms = [(await client.get(f"{PATH}/arms")).json() for client in (here, there)]
    assert arms[0] == arms[1]
    back = await exported(there)
    going_on = await use(here, 20, 2)
    assert await use(there, 20, 2) == going_on
    await here.delete(PATH)
    assert (await here.post("/v1/sessions/import", json=back)).status_code == 201
    assert await use(here, 20, 2) == going_on
    ends = [timeless((await client.get(PATH)).json()) for client in (here, there)]
    for end in ends:
        del end["last_act_at"], end["last_event_at"]
    assert ends[0] == ends[1]


async def test_updates_may_leave_an_arm_rounding_alone(make_client):
    here, there = [await make_client(MemoryStore()) for _ in range(2)]
    await made(here, learner={"kind": "fixed", "arms": ["a"]}, updates={"within_seconds": 60})
    await here.post(f"{PATH}/acts", json={"count": 2})
    for event_id, loss in (("x", 0.3), ("y", 0.4), ("x", 0), ("y", 0)):
        await here.post(f"{PATH}/feedback", json={"arm": 0, "loss": loss, "event_id": event_id})
    assert (await there.post("/v1/sessions/import", json=await exported(here))).status_code == 201
    shown = [(await client.get(f"{PATH}/arms")).json()["arms"][0] for client in (here, there)]
    assert shown[0] == shown[1]
    assert shown[0]["mean_loss"] == shown[0]["so_far"]["mean"] == shown[0]["low"] == 0


async def test_event_ids_of_before_are_duplicates_afterwards(make_client):
    here, there = await make_client(MemoryStore()), await make_client(MemoryStore())
    await start(here)
    await there.post("/v1/sessions/import", json=await exported(here))
    again = {"arm": 0, "loss": 0.5, "event_id": "1-0"}

    answers = [(await client.post(f"{PATH}/feedback", json=again)).json() for client in (here, there)]

    assert answers[0] == answers[1]


@pytest.mark.parametrize("learner", [*LEARNERS.values(), CLW])
async def test_lists_show_the_effective_arms_of_a_session_just_imported(make_client, learner):
    here, there = await make_client(MemoryStore()), await make_client(MemoryStore())
    await start(here, learner=learner)
    imported = await there.post("/v1/sessions/import", json=await exported(here))

    (listed,) = (await there.get("/v1/sessions")).json()["sessions"]

    assert listed["effective_arms"] == imported.json()["effective_arms"]


async def test_decisions_fall_due_where_nobody_calls(make_client):
    clock = Clock()
    here, store = await make_client(MemoryStore(clock=clock)), MemoryStore(clock=clock)
    there = await make_client(store)
    await start(here, expiry={"after_seconds": 64, "default_loss": 0.5})
    await there.post("/v1/sessions/import", json=await exported(here))
    clock.now += 100

    assert list(await store.due(9)) == ["s"]


@pytest.mark.parametrize("fields", [{}, {"expiry": EXPIRY, "idle_ttl_seconds": 900}], ids=["plain", "expiry"])
async def test_an_import_sent_again_with_its_key_gets_its_answer_again(make_client, store, fields):
    client, other = await make_client(store), await make_client(store)
    await start(client, **fields)
    document = await exported(client)
    await client.delete(PATH)
    key = {"Idempotency-Key": "moved"}

    first = await client.post("/v1/sessions/import", json=document, headers=key)
    shown = (await client.get(PATH)).json()
    await use(client, 3, 3)
    again = await other.post("/v1/sessions/import", json=document, headers=key)

    assert (first.status_code, again.status_code) == (201, 201)
    assert timeless(first.json()) == timeless(shown)
    assert again.content == first.content
    assert [answer.headers.get("Idempotent-Replayed") for answer in (first, again)] == [None, "true"]
    codes = []
    for body, headers in (
        (sealed(document | {"created_at": 5.0}), key),
        (document, {"Idempotency-Key": "x"}),
        (document, {}),
    ):
        answer = await client.post("/v1/sessions/import", json=body, headers=headers)
        codes.append((answer.status_code, answer.json()["code"]))
    assert codes == [(422, "idempotency_conflict"), (409, "session_exists"), (409, "session_exists")]


def of_arm(*counts):
    return _parts(_pack({bytes(4): struct.pack("<6d", *counts)}))


CHANGES = {
    "changed": lambda document: document | {"created_at": 1.0},
    "of another id": lambda document: document | {"session_id": "t"},
    "incomplete": lambda document: sealed({name: value for name, value in document.items() if name != "counts"}),
    "without its digest": lambda document: {name: value for name, value in document.items() if name != "sha256"},
    "newer": lambda document: sealed(document | {"format": 2}),
    "with a field more": lambda document: sealed(document | {"more": 1}),
    "cut in its state": lambda document: sealed(document | {"state": [{"part": "AAAA"}]}),
    "no base64": lambda document: sealed(document | {"records": [{"part": "???"}]}),
    "cut in its records": lambda document: sealed(document | {"records": [{"part": "AAAA"}]}),
    "cut in its event ids": lambda document: sealed(document | {"event_ids": [{"part": "AAAA"}]}),
    "with as good as no event ids where there are to be four billion": lambda document: sealed(
        document | {"event_ids": [{"part": b64encode(struct.pack("<II", 8, 2**32 - 1)).decode()}]}
    ),
    "cut in its counts": lambda document: sealed(document | {"counts": [{"part": "AAAA"}]}),
    "with more events than it had": lambda document: sealed(document | {"counts": of_arm(1e6, 0, 0, 0, 0, 0)}),
    "with defaults of no decisions": lambda document: sealed(document | {"counts": of_arm(0, 0, 1, 0, 0, 0)}),
    "with counts that are no numbers": lambda document: sealed(
        document | {"counts": of_arm(1, float("nan"), 0, 0, 0, 0)}
    ),
    "of an unknown learner": lambda document: sealed(document | {"specification": {}}),
    "of no time": lambda document: sealed(document | {"created_at": 1e300}),
    "of a foreign id": lambda document: sealed(document | {"session_id": "a/b"}),
}


@pytest.mark.parametrize("change", CHANGES)
async def test_what_is_changed_incomplete_or_newer_is_refused_whole(client, change):
    await start(client)
    document = CHANGES[change](await exported(client))
    await client.delete(PATH)

    answer = await client.post("/v1/sessions/import", json=document)

    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request"), answer.text
    assert (await client.get("/v1/sessions")).json()["sessions"] == []


async def test_exports_and_imports_have_a_limit_of_their_own(make_client):
    client = await make_client(max_import_bytes=100_000, max_body_bytes=1_000)
    await client.post("/v1/sessions", json={"session_id": "s", "learner": {"kind": "dexp3", "n_arms": 2000}})
    document = await exported(client)
    await client.delete(PATH)

    assert len(json.dumps(document)) > 1_000
    assert (await client.post("/v1/sessions/import", json=document)).status_code == 201
    await client.post("/v1/sessions", json={"session_id": "t", "learner": {"kind": "dexp3", "n_arms": 20_000}})
    answer = await client.get("/v1/sessions/t/export")
    assert (answer.status_code, answer.json()["code"]) == (413, "payload_too_large")
    too_large = document | {"state": [{"part": "A" * 100_000}]}
    assert (await client.post("/v1/sessions/import", json=too_large)).status_code == 413


async def test_a_key_imports_within_its_prefix_and_number_alone(make_client):
    secret = "shop-0123456789abcdef"
    keys = [{"name": "shop", "role": "admin", "key": secret, "session_prefix": "shop-", "max_sessions": 1}]
    open_client = await make_client(MemoryStore())
    await start(open_client)
    document = await exported(open_client)
    client = await make_client(MemoryStore(), api_keys=SecretText(json.dumps(keys)))
    headers = {"Authorization": f"Bearer {secret}"}

    assert (await client.post("/v1/sessions/import", json=document, headers=headers)).status_code == 403
    for n, status in ((1, 201), (2, 403)):
        moved = sealed(document | {"session_id": f"shop-{n}"})
        assert (await client.post("/v1/sessions/import", json=moved, headers=headers)).status_code == status


SPEC, BESIDE = b'{"of":"which nothing is known"}', {b"1": b"a record"}


def newer(state):
    body = bytes([NEWEST + 1]) + state[1:-4] + b"more"
    return body + zlib.crc32(body).to_bytes(4, "little")


async def upgrade(store, session_id="s"):
    """Write a session as a newer version would, and return it."""
    before = await store.load(session_id)
    written = Written("feed-1", newer(before.state), spec=SPEC, records=BESIDE, about=b"new")
    assert await store.commit(Commit(session_id, "feed", before.version, written)) == Committed()
    return await store.load(session_id)


CALLS_ON_NEWER = {"GET": ["", "/arms", "/history", "/export"], "POST": ["/act", "/feedback", "/acts"]}
CALLS_ON_NEWER |= {"DELETE": [""], "PATCH": ["", "/arms"]}


BODIES_OF_CALLS = {"/feedback": {"arm": 0, "loss": 0.5}, "/acts": {"count": 2}}
BODIES_OF_CALLS |= {"/arms": {"add": ["y"]}, "": {"floor": 0.0}}


async def test_a_session_of_a_newer_version_is_to_be_asked_for_again_and_left_alone(make_client, store):
    """Also by a worker that has an older version of it in its cache."""
    client, other = await make_client(store), await make_client(store)
    await start(client)
    await client.post("/v1/sessions", json={"session_id": "t", "learner": {"kind": "dexp3", "n_arms": 2}})
    before, whole = await upgrade(store), await store.export("s")

    for method, paths in CALLS_ON_NEWER.items():
        for path in paths:
            for each in (client, other):
                body = BODIES_OF_CALLS.get(path) if method in ("POST", "PATCH") else None
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
        expiry = ExpirySpec(after_seconds=64.0, default_loss=None)
        await sessions.create(session_id, Specification(learner=Dexp3Spec(n_arms=3), expiry=expiry), None)
        await sessions.submit(session_id, Act(3, 10**6))
    clock.now += 100
    before = await upgrade(store)

    for _ in range(2):
        await Sweeper(store, sessions).sweep()

    assert await store.load("s") == before
    assert (await sessions.view("t")).count(b'"expired":3') == 1
    assert caplog.text.count("session s") == 1
    clock.now += 100
    assert list(await store.due(9)) == ["s"]


async def test_a_document_with_a_state_of_a_newer_version_can_be_imported_by_one_of_that_version(make_client):
    here, there = await make_client(MemoryStore()), await make_client(MemoryStore())
    await start(here)
    document = await exported(here)
    (part,) = document["state"]
    part["part"] = b64encode(newer(b64decode(part["part"]))).decode()
    document["specification"] = {"of": "which nothing is known"}

    answer = await there.post("/v1/sessions/import", json=sealed(document))

    assert (answer.status_code, answer.json()["code"]) == (503, NewerSchemaError.code)
    assert (await there.get(PATH)).status_code == 404
