"""What somebody changed by hand in the store: an error of that session alone, never another session's numbers."""

import json
import struct

import pytest

from service.store import open_store
from tests.support import vectors
from tests.support.changed_documents import with_checksum
from tests.support.examples import some_quick
from tests.support.one_session import PATH, made

ARMS = [spec for kind in sorted(vectors.kinds()) if "n_arms" in (spec := vectors.traces(kind)[0]["spec"])]
POINTS = [spec for kind in sorted(vectors.kinds()) if "dim" in (spec := vectors.traces(kind)[0]["spec"])]
BALL = {"kind": "ball", "radius": 1.0}


@pytest.fixture
async def client(make_client, redis_server):
    yield await make_client(open_store(redis_server.url))
    redis_server.client.flushdb()


async def told(client):
    """What every call on the session says of it; a list shows it, by the head of its state, or as damaged."""
    answers = [
        await client.get(PATH),
        await client.post(f"{PATH}/act"),
        await client.post(f"{PATH}/feedback", json={"arm": 0, "loss": 0.5, "slot": 1}),
        await client.post("/v1/sessions", json={"session_id": "s", "learner": {"kind": "dexp3", "n_arms": 2}}),
    ]
    listed = (await client.get("/v1/sessions")).json()["sessions"]
    (here,) = [summary for summary in listed if summary["session_id"] == "s"]
    assert "slot" in here or here == {"session_id": "s", "damaged": True}
    return {(answer.status_code, answer.json()["code"]) for answer in answers}


CORRUPT = {(500, "state_corrupt")}


async def make(client, learner, name="s", **fields):
    await made(client, session_id=name, learner=learner, seed=1, **fields)
    await client.post(f"/v1/sessions/{name}/acts", json={"count": 9})


@pytest.mark.parametrize("expiry", [None, {"after_seconds": 60, "default_loss": None}], ids=["plain", "expiry"])
@pytest.mark.parametrize("sizes", some_quick([(2, 3), (3, 2), (1, 2)], [(2, 3)]), ids=str)
@pytest.mark.parametrize("spec", ARMS, ids=lambda spec: spec["kind"])
async def test_a_state_of_another_number_of_arms_is_refused(client, redis_server, spec, sizes, expiry):
    without = {name: value for name, value in spec.items() if name != "probabilities"}
    for name, n_arms in zip(("s", "other"), sizes, strict=True):
        await make(client, without | {"n_arms": n_arms}, name, expiry=expiry)
    other = redis_server.client.hget("bandit:{other}", "state")
    redis_server.client.hset("bandit:{s}", mapping={"state": other, "version": "x-1"})

    assert await told(client) == CORRUPT
    assert redis_server.client.hget("bandit:{s}", "state") == other


@pytest.mark.parametrize("number", [1e12, -1.0, float("nan")])
async def test_a_head_that_was_put_in_by_hand_is_listed_as_damaged_and_deleted(client, redis_server, number):
    """With the checksums repaired: a time of the last act that there is not."""
    await make(client, {"kind": "dexp3", "n_arms": 2})
    state = redis_server.client.hget("bandit:{s}", "state")
    damaged = with_checksum(state[:85] + struct.pack("<d", number) + state[93:])
    redis_server.client.hset("bandit:{s}", mapping={"state": damaged, "version": "x-1"})

    assert await told(client) == CORRUPT
    assert (await client.get("/v1/sessions")).json()["sessions"] == [{"session_id": "s", "damaged": True}]
    assert (await client.delete(PATH)).status_code == 204
    assert (await client.get("/v1/sessions")).json()["sessions"] == []


@pytest.mark.parametrize("dims", [(2, 3), (3, 2)], ids=str)
@pytest.mark.parametrize("spec", POINTS, ids=lambda spec: spec["kind"])
async def test_a_state_of_another_dimension_is_refused(client, redis_server, spec, dims):
    for name, dim in zip(("s", "other"), dims, strict=True):
        await make(client, spec | {"dim": dim, "feasible_set": BALL}, name)
    other = redis_server.client.hget("bandit:{other}", "state")
    redis_server.client.hset("bandit:{s}", mapping={"state": other, "version": "x-1"})

    assert await told(client) == CORRUPT


@pytest.mark.parametrize(
    ("written", "damage"),
    [
        *(
            pytest.param('"seed":1', f'"seed":{seed}', id=f"seed {seed[:5]}")
            for seed in ("-1", "1e400", "NaN", "null", '"1"', "1.0", "true", str(2**128), "9" * 5000)
        ),
        *(('"n_arms":2', f'"n_arms":{n_arms}') for n_arms in ("3", 10**12, "true")),
        ('"kind":"dexp3"', '"kind":"ogd"'),
        *(('},"seed"', f',"loss_range":[0.0,{end}]}},"seed"') for end in ("NaN", "1e400")),
        *(("{", "["), ("}", ""), ('{"spec', '{"new":1,"spec')),
        pytest.param('{"spec', '{"a":' + "[" * 100_000 + ',"spec', id="deep"),
    ],
)
async def test_a_specification_that_nobody_wrote_is_refused(client, redis_server, written, damage, caplog):
    await make(client, {"kind": "dexp3", "n_arms": 2})
    spec = redis_server.client.hget("bandit:{s}", "spec").decode()
    assert written in spec
    damaged = spec.replace(written, damage, 1)
    redis_server.client.hset("bandit:{s}", mapping={"spec": damaged, "version": "x-1"})

    assert await told(client) == CORRUPT
    assert redis_server.client.hget("bandit:{s}", "spec").decode() == damaged
    assert any(record.getMessage().endswith("session s") for record in caplog.records)
    assert (await client.delete(PATH)).status_code == 204


@pytest.mark.parametrize("kind", ["exp3", "bold"])
async def test_open_slots_of_arms_that_never_were_are_refused(client, redis_server, kind):
    spec = next(spec for spec in ARMS if spec["kind"] == kind)
    for name, n_arms in (("s", 2), ("other", 9)):
        await make(client, spec | {"n_arms": n_arms}, name)
    redis_server.client.hset("bandit:{s}:slots", mapping=redis_server.client.hgetall("bandit:{other}:slots"))
    redis_server.client.hset("bandit:{s}", "version", "x-1")

    answer = await client.post(f"{PATH}/act")

    assert (answer.status_code, answer.json()["code"]) == (500, "state_corrupt")


async def test_the_answer_kept_under_a_key_is_not_made_from_a_damaged_session(client, redis_server):
    session, key = {"session_id": "s", "learner": {"kind": "dexp3", "n_arms": 2}}, {"Idempotency-Key": "k"}
    await client.post("/v1/sessions", json=session, headers=key)
    redis_server.client.hset("bandit:{s}", mapping={"spec": json.dumps({"seed": 1}), "version": "x-1"})

    answer = await client.post("/v1/sessions", json=session, headers=key)

    assert (answer.status_code, answer.json()["code"]) == (500, "state_corrupt")


async def test_a_session_without_its_version_is_damaged(client, redis_server):
    await make(client, {"kind": "dexp3", "n_arms": 2})
    redis_server.client.hdel("bandit:{s}", "version")

    for answer in (await client.get(PATH), await client.post(f"{PATH}/act")):
        assert (answer.status_code, answer.json()["code"]) == (500, "state_corrupt")


WHOLE = {"learner": {"kind": "multiscale_tsallis", "arms": [*"abcdefghijk"]}, "idle_ttl_seconds": 86_400}
WHOLE |= {"expiry": {"after_seconds": 60, "default_loss": 1}, "decision_log": {"max_entries": 100}}
ODD = [b"", b"x", b"\0\xff", b"1e400", b"nan", b"-1", b"9" * 20, b"c" * 200]
FIELDS = [*("version", "spec", "state", "created_at", "expires_at", "writers", "buckets", "about", "counts")]
EVENT = {"label": "a", "loss": 1, "event_id": "e"}
CALLS = [
    ("GET", "", None),
    ("POST", "/act", {}),
    ("POST", "/feedback", EVENT),
    ("POST", "/feedback", EVENT | {"event_id": "e2"}),
    ("PATCH", "", {"floor": 0.1}),
    *(("GET", path, None) for path in ("/arms?sort=mean", "/decisions", "/history", "/export")),
]


@pytest.fixture
async def other(make_client, redis_server, client):
    """Another service, which has nothing of the session in its cache; the first one has."""
    for name in ("s", "sound"):
        await made(client, session_id=name, **WHOLE)
        await client.post(f"/v1/sessions/{name}/act", json={"eligible": ["a"]}, headers={"Idempotency-Key": "k"})
        assert (await client.post(f"/v1/sessions/{name}/feedback", json=EVENT)).json()["applied"] == 1
    return await make_client(open_store(redis_server.url))


async def unsound(*clients):
    """Answers that blame the service or the store for a session; a list shows the sound one in any case."""
    found = []
    for client in clients:
        for method, path, body in CALLS:
            answer = await client.request(method, PATH + path, json=body)
            if answer.status_code >= 500 and answer.json()["code"] != "state_corrupt":
                found.append((method, path, answer.json()["code"]))
        listed = await client.get("/v1/sessions")
        assert "sound" in {summary["session_id"] for summary in listed.json()["sessions"]}
        assert (await client.post("/v1/sessions/sound/act")).status_code == 200
    assert (await clients[0].delete(PATH)).status_code in {204, 404}
    return found


@pytest.mark.parametrize("value", ODD, ids=ascii)
@pytest.mark.parametrize("field", FIELDS)
async def test_whichever_field_is_changed_the_session_alone_is_blamed(client, other, redis_server, field, value):
    redis_server.client.hset("bandit:{s}", field, value)

    assert await unsound(client, other) == []


@pytest.mark.parametrize(
    ("written", "damage"),
    [
        (b'"summary":[', b'"summary":["x","y","z",'),
        (b'"summary":[', b'"summary":"names","x":['),
        *((b'"floor":0.0', b'"floor":' + value) for value in (b"NaN", b"1e400", b"9" * 5000, b"[" * 5000)),
    ],
    ids=lambda value: ascii(value[:30]),
)
async def test_what_lists_show_was_changed_and_the_session_is_read(client, other, redis_server, written, damage):
    about = redis_server.client.hget("bandit:{s}", "about")
    assert written in about
    shown = (await client.get("/v1/sessions")).json()
    redis_server.client.hset("bandit:{s}", "about", about.replace(written, damage))

    listed = (await other.get("/v1/sessions")).json()

    assert {each["session_id"]: each for each in listed["sessions"]} == {
        each["session_id"]: each for each in shown["sessions"]
    }


BY_HAND = [b"\xcb\x7f\xf0" + bytes(6), b"\xcb\xff\xff" + bytes(6), b"\xa1", b"\xa1\xc1", b"\x05", b"\x92\1\2"]


@pytest.mark.parametrize("value", [*ODD, *BY_HAND], ids=ascii)
async def test_counts_that_are_no_numbers_count_nothing(client, other, redis_server, value):
    for field in ("#0", "#1"):
        redis_server.client.hset("bandit:{s}", field, value)

    assert await unsound(client, other) == []


@pytest.mark.parametrize("key", ["", ":slots", ":log", ":seen"])
@pytest.mark.parametrize("value", ["text", "list", "hash", "nothing"])
async def test_whatever_key_is_of_another_type_the_session_alone_is_blamed(client, other, redis_server, key, value):
    names = redis_server.client.keys(f"bandit:{{s}}{key}*" if key else "bandit:{s}")
    assert names
    for name in names:
        redis_server.client.delete(name)
        if value == "text":
            redis_server.client.set(name, "x")
        elif value == "list":
            redis_server.client.rpush(name, "x")
        elif value == "hash":
            redis_server.client.hset(name, "x", "x")

    assert await unsound(client, other) == []


ENTRIES = [b"", b"x", b"null", b"{}", b"[1]", b'["kind"]', b"\xff", b'{"kind":1} ', b'{"kind":' + b"[" * 90_000]


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda value: ascii(value[:12]))
@pytest.mark.parametrize("place", ["*", "3-99999999999999"])
async def test_an_entry_of_a_log_that_nobody_wrote_is_told(client, other, redis_server, entry, place):
    redis_server.client.xadd("bandit:{s}:log", {"e": entry}, id=place)

    answer = await client.get(f"{PATH}/decisions")

    assert (answer.status_code, answer.json()["code"]) == (500, "state_corrupt")
    assert await unsound(client, other) == []
