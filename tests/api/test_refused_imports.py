"""Imports that are refused: of what exists, was changed, is too large, or is not the key's."""

import json
import struct
from base64 import b64encode

import pytest

from service.settings import SecretText
from service.store.memory import MemoryStore
from tests.support.transfer import PATH, exported, sealed, start


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
    "with a field more": lambda document: sealed(document | {"more": 1}),
    "cut in its state": lambda document: sealed(document | {"state": [{"part": "AAAA"}]}),
    "no base64": lambda document: sealed(document | {"records": [{"part": "???"}]}),
    "cut in its records": lambda document: sealed(document | {"records": [{"part": "AAAA"}]}),
    "cut in its counts": lambda document: sealed(document | {"counts": [{"part": "AAAA"}]}),
    "with counts that are no numbers": lambda document: sealed(
        document | {"counts": [{"part": b64encode(struct.pack("<I6d", 0, 1, float("nan"), 0, 0, 0, 0)).decode()}]}
    ),
    "cut in its event ids": lambda document: sealed(document | {"event_ids": [{"part": "AAAA"}]}),
    "with as good as no event ids where there are to be four billion": lambda document: sealed(
        document | {"event_ids": [{"part": b64encode(struct.pack("<dI", 0, 2**32 - 1)).decode()}]}
    ),
    "of an unknown learner": lambda document: sealed(document | {"specification": {}}),
    "of no time": lambda document: sealed(document | {"created_at": 1e300}),
    "of a foreign id": lambda document: sealed(document | {"session_id": "a/b"}),
}


@pytest.mark.parametrize("change", CHANGES)
async def test_what_is_changed_or_incomplete_is_refused_whole(client, change):
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
