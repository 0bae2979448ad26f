"""Export and import: a session goes on elsewhere as it would have here, or is refused whole."""

import json
import struct
from base64 import b64encode

import pytest

from service.settings import SecretText
from service.store.memory import MemoryStore
from tests.support.clock import Clock
from tests.support.transfer import LEARNERS, PATH, exported, sealed, start, use

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

    assert list(await store.reminders.due(9)) == ["s"]


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


async def test_an_id_that_exists_is_a_conflict(client):
    await start(client)

    answer = await client.post("/v1/sessions/import", json=await exported(client))

    assert (answer.status_code, answer.json()["code"]) == (409, "session_exists")
    assert (await client.get("/v1/sessions/nobody/export")).status_code == 404


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
        document | {"event_ids": [{"part": b64encode(struct.pack("<dI", 0, 2**32 - 1)).decode()}]}
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
    learner = {"kind": "dexp3", "n_arms": 2000}
    await client.post("/v1/sessions", json={"session_id": "s", "learner": learner})
    document = await exported(client)
    await client.delete(PATH)

    assert len(json.dumps(document)) > 1_000
    assert (await client.post("/v1/sessions/import", json=document)).status_code == 201
    large = {"session_id": "t", "learner": {"kind": "dexp3", "n_arms": 20_000}}
    await client.post("/v1/sessions", json=large)
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

    refused = await client.post("/v1/sessions/import", json=document, headers=headers)
    assert refused.status_code == 403
    for n, status in ((1, 201), (2, 403)):
        moved = sealed(document | {"session_id": f"shop-{n}"})
        assert (await client.post("/v1/sessions/import", json=moved, headers=headers)).status_code == status
