"""Export and import: a session goes on elsewhere as it would have here."""

import pytest

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
