"""Events of many sessions in one call: lines judged alone, parts that stand for themselves, and sending again."""

import itertools
import json
import random
import time

import pytest

from service.api.bulk import _lines
from service.errors import OverloadedError, StoreUnavailableError
from service.store.memory import MemoryStore
from service.telemetry.logs import PART
from tests.support.api_keys import ADMIN, KEYS, SHOP, bearer

NDJSON = {"Content-Type": "application/x-ndjson"}


def line(session="a", arm=0, **fields):
    named = {"session_id": session, "arm": arm, "loss": 0.5} | fields
    return json.dumps({name: value for name, value in named.items() if value is not ...})


async def post(client, *lines, query="", **headers):
    body = lines[0] if isinstance(lines[0], bytes) else "\n".join(lines).encode()
    return await client.post(f"/v1/feedbacks{query}", content=body, headers=NDJSON | headers)


@pytest.fixture
async def three(client, create):
    """Sessions a, b and c with ten open decisions each."""
    for name in "abc":
        await create(session_id=name, learner={"kind": "dexp3", "n_arms": 1})
        await client.post(f"/v1/sessions/{name}/acts", json={"count": 10})
    return client


async def counts(client, name):
    view = (await client.get(f"/v1/sessions/{name}")).json()
    return view["feedbacks"], view["outstanding"]


async def test_each_session_gets_its_lines(three):
    answer = await post(three, *(line(name, event_id=f"{name}{n}") for n in range(3) for name in "abc"))

    assert (answer.status_code, answer.json()) == (200, {"applied": 9, "duplicates": 0})
    assert [await counts(three, name) for name in "abc"] == [(3, 7)] * 3
    again = await post(three, *(line(name, event_id=f"{name}{n}") for n in range(3) for name in "abc"))
    assert again.json() == {"applied": 0, "duplicates": 9}


async def test_each_line_is_judged_alone(three):
    lines = [
        line(event_id="1"),
        '{"session_id": "a", "arm"',
        "",
        "5",
        line(session=...),
        line(session=7),
        line(arm=9, event_id="2"),
        line(session="nope"),
        line(session="no id"),
        line(loss="1"),
        line(other=1),
        line(arm=..., label=5),
        line(event_id="1"),
        line(loss=..., void=True, event_id="3"),
        line(session="b", loss=..., void=True),
        line(session="b", loss=..., void=False),
        '{"session_id": "a", "arm": 0, "loss": 1e400}',
        '{"session_id": "a", "arm": 0, "loss": 0, "loss": 1}',
        *[line(session="c", event_id=f"c{n}") for n in range(11)],
        json.dumps({"session_id": "c"} | {f"f{n}": 0 for n in range(200)}),
    ]
    answer = await post(three, "\ufeff" + "\r\n".join(lines), **{"Idempotency-Key": "k"})

    wrong = [2, 4, 5, 6, 7, 8, 9, 10, 11, 12, 16, 17, 18, 30]
    found = answer.json()
    assert answer.status_code == 200
    assert found["invalid_lines"] == wrong
    counted = {"applied": 11, "duplicates": 1, "voided": 2, "surplus": 1, "invalid": len(wrong)}
    assert {name: found[name] for name in found if type(found[name]) is int} == counted
    assert [each["line"] for each in found["errors"]] == wrong
    told = {each["line"]: each for each in found["errors"]}
    assert {told[n]["code"] for n in (8, 9)} == {"unknown_session"}
    assert {told[n]["code"] for n in wrong if n not in (8, 9)} == {"invalid_request"}
    assert [told[n].get("field") for n in (2, 4, 5, 6, 7, 10, 11, 16)] == [
        *(None, None, "session_id", "session_id", "arm", "loss", "other", "void")
    ]
    assert [await counts(three, name) for name in "abc"] == [(1, 8), (0, 9), (10, 0)]


async def test_a_json_body_counts_from_0(three):
    events = [json.loads(line(event_id="1")), 5, json.loads(line("nope", event_id="2")), {"session_id": "a"}]
    found = (await three.post("/v1/feedbacks", json={"events": events})).json()

    assert (found["applied"], found["invalid"], found["invalid_indexes"]) == (1, 3, [1, 2, 3])
    assert [each["index"] for each in found["errors"]] == [1, 2, 3]


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        (b"no json", "application/json", 422),
        (b"[]", "application/json", 422),
        (b'{"events": []}', "application/json", 422),
        (b'{"events": [{}], "more": 1}', "application/json", 422),
        (b'{"events": [{}], "more": [{}]}', "application/json", 422),
        (b'{"events": 5}', "application/json", 422),
        (b"", "application/json", 422),
        (b"{}", "text/plain", 415),
        (b"", "application/x-ndjson", 200),
        (b"\n \r\n", "application/x-ndjson; charset=utf-8", 200),
        (b"\n" * 1_900_000, "application/x-ndjson", 200),
        (b"{}\n" * 10_001, "application/x-ndjson", 413),
        (b"{}\n" * 10_000, "application/x-ndjson", 200),
        (b"1\n" * 10_001, "application/x-ndjson", 413),
        (b'{"events": [%b{}]}' % (b"{}," * 10_000), "application/json", 413),
    ],
    ids=itertools.count(),
)
async def test_bodies_that_are_refused_whole(three, body, kind, status):
    answer = await three.post("/v1/feedbacks", content=body, headers={"Content-Type": kind})

    assert answer.status_code == status, answer.text


async def test_what_could_count_twice_is_refused_without_a_key(three):
    lines = [line(event_id="1"), line(session="b")]
    refused = await post(three, *lines)

    assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, "Idempotency-Key")
    assert await counts(three, "a") == (0, 10)
    assert (await post(three, line(), line(event_id=None))).json()["applied"] == 2
    assert (await post(three, line(event_id="1"), line(session="b", loss="wrong"))).json()["applied"] == 1
    first = await post(three, *lines, **{"Idempotency-Key": "k"})
    again = await post(three, *lines, **{"Idempotency-Key": "k"})
    assert first.json() == again.json() == {"applied": 1, "duplicates": 1}
    assert (again.headers["idempotent-replayed"], "idempotent-replayed" in first.headers) == ("true", False)
    other = await post(three, lines[0], line(session="b", loss=0), **{"Idempotency-Key": "k"})
    assert other.json()["errors"][0]["code"] == "idempotency_conflict"


async def test_the_query_of_feedbacks_is_accepted(three):
    assert (await post(three, line(), query="?on_surplus=skip&on_invalid=skip")).json()["applied"] == 1
    assert (await post(three, line(), query="?on_surplus=refuse")).status_code == 422


class Failing(MemoryStore):
    """A store that commits nothing to the sessions in ``down``."""

    down: frozenset[str] = frozenset()

    async def commit(self, commit):
        if commit.session_id in self.down:
            raise StoreUnavailableError
        return await super().commit(commit)


async def test_what_was_not_committed_is_named_and_the_whole_body_is_sent_again(make_client):
    store = Failing()
    client = await make_client(store)
    for name in "abc":
        body = {"session_id": name, "learner": {"kind": "dexp3", "n_arms": 1}}
        assert (await client.post("/v1/sessions", json=body)).status_code == 201
        await client.post(f"/v1/sessions/{name}/acts", json={"count": 3})
    store.down = frozenset("b")
    lines = [line(name) for name in "abcabc"] + ["torn"]
    failed = await post(client, *lines, **{"Idempotency-Key": "k"})
    brief = await post(client, *lines, **{"Idempotency-Key": "k", "Prefer": "return=minimal"})
    store.down = frozenset()
    again = await post(client, *lines, **{"Idempotency-Key": "k"})

    assert {"errors", "invalid_lines", "unavailable_lines"}.isdisjoint(brief.json())
    assert (brief.status_code, brief.json()["applied"], brief.json()["invalid"]) == (503, 4, 1)
    found = failed.json()
    assert (failed.status_code, found["code"], "retry-after" in failed.headers) == (503, "store_unavailable", True)
    assert (found["unavailable_lines"], found["applied"], found["duplicates"]) == ([2, 5], 4, 0)
    assert found["invalid_lines"] == [7]
    assert (again.status_code, again.json()["applied"]) == (200, 6)
    assert [await counts(client, name) for name in "abc"] == [(2, 1)] * 3
    store.down = frozenset(f"s{n}" for n in range(500))
    for name in store.down:
        await client.post("/v1/sessions", json={"session_id": name, "learner": {"kind": "dexp3", "n_arms": 1}})
    found = (await post(client, *(line(name, event_id="1") for name in sorted(store.down)))).json()
    assert len(found["unavailable_lines"]) == 500


async def test_a_key_of_a_prefix_settles_its_own_sessions(make_client):
    keys = [KEYS[0], {"name": "shop", "role": "client", "key": SHOP, "session_prefix": "shop-"}]
    client = await make_client(api_keys=json.dumps(keys))
    for name in ("shop-a", "other"):
        body = {"session_id": name, "learner": {"kind": "dexp3", "n_arms": 1}}
        assert (await client.post("/v1/sessions", json=body, headers=bearer(ADMIN))).status_code == 201
        await client.post(f"/v1/sessions/{name}/act", headers=bearer(ADMIN))
    lines = [line("shop-a", event_id="1"), line("other", event_id="2")]
    found = (await post(client, *lines, **bearer(SHOP))).json()

    assert (found["applied"], found["invalid_lines"]) == (1, [2])
    assert found["errors"][0]["code"] == "unknown_session"
    assert (await post(client, *lines, **bearer(ADMIN))).json()["applied"] == 1


async def test_large_bodies_are_read_in_pieces(three):
    for name in "ab":
        await three.post(f"/v1/sessions/{name}/acts", json={"count": 1000})
    lines = [line("ab"[n % 2], event_id=f"e{n}") for n in range(1000)]
    big = json.dumps({"session_id": "a", "event_id": "x" * 20_000})
    found = (await post(three, *lines, big, big[:-3])).json()
    assert (found["applied"], found["invalid_lines"]) == (1000, [1001, 1002])
    events = b",".join(each.encode() for each in lines)
    again = {"content": b'{"events":[%b]}' % events, "headers": {"Content-Type": "application/json"}}
    assert (await three.post("/v1/feedbacks", **again)).json() == {"applied": 0, "duplicates": 1000}
    again["content"] = b'{"events":[%b,{"session_id":"a","event_id":"}, %b"}]}' % (events, b"x" * 9000)
    found = (await three.post("/v1/feedbacks", **again)).json()
    assert (found["duplicates"], found["invalid_indexes"]) == (1000, [1000])


def test_lines_that_are_parsed_together_say_what_they_say_alone():
    parts = ['{"a":1}', '{"a":1}', '{"a":"', "}", '"}', "{", "[", "]", '"', "5}", '{"b":2}']
    draws, together = random.Random(1), 0
    for _ in range(3_000):
        lines = ["".join(draws.choices(parts, k=draws.randint(1, 3))) for _ in range(draws.randint(1, 3))]
        for place, value in _lines("\n".join(lines).encode()):
            if not isinstance(value, bytes):
                assert value == json.loads(lines[place - 1])
                together += 1
    assert together > 100


async def test_parts_go_to_the_owners_of_their_sessions(three):
    requests = three._transport.app.requests
    asked = {}

    async def hand_over(scope, body):
        name = scope["path_params"].get("session_id")
        if name is None or name == "a":  # The call itself, and a part, stay.
            return None
        asked[name] = body
        if name == "b":
            raise OverloadedError("its owner died")
        kept = ("type", "method", "path", "root_path", "query_string", PART)
        return await requests.carry_out({each: scope.get(each, "") for each in kept} | {"headers": []}, body)

    requests.hand_over = hand_over
    lines = [line(name, event_id="1") for name in "abc"]
    found = (await post(three, *lines, line("c", loss=7, event_id="2"))).json()
    requests.hand_over = None

    assert asked == {"b": [{"arm": 0, "loss": 0.5, "event_id": "1"}], "c": asked["c"]}
    assert (found["applied"], found["unavailable_lines"], found["invalid_lines"]) == (2, [2], [4])
    assert found["errors"][0]["field"] == "loss"
    assert [(await counts(three, name))[0] for name in "abc"] == [1, 0, 1]


@pytest.mark.slow
@pytest.mark.alone
async def test_a_hundred_sessions_cost_little_more_than_their_commits(client):
    names = [f"s{n}" for n in range(100)]
    for name in (*names, "one"):
        body = {"session_id": name, "learner": {"kind": "dexp3", "n_arms": 100}}
        assert (await client.post("/v1/sessions", json=body)).status_code == 201

    async def cost(sessions, number):
        lines = []
        for name in sessions:
            acts = {"count": 1000 // len(sessions)}
            actions = (await client.post(f"/v1/sessions/{name}/acts", json=acts)).json()["actions"]
            lines += [line(name, each["arm"], event_id=f"{number}-{n}") for n, each in enumerate(actions)]
        begun = time.process_time()
        assert (await post(client, *lines)).json() == {"applied": 1000, "duplicates": 0}
        return time.process_time() - begun

    one = min([await cost(["one"], number) for number in range(7)])
    assert min([await cost(names, number) for number in range(7)]) <= 6 * one
