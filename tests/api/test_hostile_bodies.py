"""Bodies, texts, headers and addresses that are odd, too large or made to cost much: refused early and briefly."""

import time

import pytest

from service.models.events import ArmEvent
from tests.support.problems import JSON, assert_problem, post

SECONDS = 2.5
"""Of processor time, which a busy machine does not stretch: far more than a refusal takes (some 0.05 s), far less
than telling of every fault took (3 to 10 s)."""


@pytest.mark.parametrize(
    "content",
    [
        pytest.param('{"events":[' + ",".join(["1"] * 900_000) + "]}", id="more events than allowed"),
        pytest.param('{"events":[' + ",".join(['{"loss":"x"}'] * 10_000) + "]}", id="all events wrong"),
        pytest.param('{"events":[' + ",".join(['{"a":1,"b":1,"c":1,"d":1}'] * 10_000) + "]}", id="many faults"),
        pytest.param('{"losses":[' + ",".join(['""'] * 600_000) + "]}", id="all losses wrong"),
        pytest.param('{"arm":0,"loss":0,' + ",".join(f'"{n}":1' for n in range(150_000)) + "}", id="fields"),
    ],
)
@pytest.mark.parametrize("call", ["feedback", "feedbacks"])
async def test_not_every_fault_of_a_body_is_looked_for(client, create, content, call):
    path = await create()
    started = time.process_time()

    assert_problem(await post(client, f"{path}/{call}", content), 422, "invalid_request")
    assert time.process_time() - started < SECONDS


@pytest.mark.parametrize(
    "learner",
    [
        {"kind": "dexp3", "arms": [1] * 600_000},
        {"kind": "dbgd", "dim": 2, "feasible_set": {"kind": "box", "lower": ["x"] * 300_000, "upper": [1, 1]}},
    ],
    ids=["arms", "box"],
)
async def test_not_every_fault_of_a_learner_is_looked_for(client, learner):
    started = time.process_time()

    assert_problem(await client.post("/v1/sessions", json={"learner": learner}), 422, "invalid_request")
    assert time.process_time() - started < SECONDS


@pytest.mark.parametrize(
    ("call", "body", "field", "index"),
    [
        ("/feedback", {"losses": [0] * 1002}, "losses", None),
        ("/feedback", {"gradient": [0] * 1001}, "gradient", None),
        ("/feedbacks", {"events": [{"losses": [0]}, {"losses": [0] * 1002}]}, "losses", 1),
        ("/feedbacks", {"events": [{"gradient": [0] * 1001}]}, "gradient", 0),
        *(
            ("", {"learner": {"kind": "dbgd", "dim": 2, "feasible_set": {name: [0] * 1001}}}, name, None)
            for name in ("center", "lower", "upper")
        ),
    ],
)
async def test_lists_longer_than_any_point_are_refused_unread(client, create, call, body, field, index):
    path = await create() if call else "/v1/sessions"

    answer = await client.post(path + call, json=body)

    assert_problem(answer, 422, "invalid_request")
    (error,) = answer.json()["errors"]
    assert (error["field"].rpartition(".")[2], error["index"]) == (field, index)
    assert error["message"].startswith("at most 100")


async def test_events_far_apart_are_refused_together(client, create):
    path = await create()
    events = [{"arm": 0, "loss": 0.5}] * 9_000
    for index in (7, 4_321, 8_999):
        events[index] = {"arm": 0, "loss": "x"}

    answer = await client.post(f"{path}/feedbacks", json={"events": events})

    assert_problem(answer, 422, "invalid_request")
    assert answer.json()["indexes"] == [7, 4_321, 8_999]


@pytest.mark.parametrize("character", ["x", "\U0001f600", "\u0001", '"', "\\"])
@pytest.mark.parametrize("call", ["feedback", "feedbacks", "acts"])
async def test_problems_stay_small_whatever_they_tell_of(client, create, character, call):
    path = await create()
    wrong = {"arm": 0, "loss": 0.5} | {character * 300 + str(number): 1 for number in range(40)}

    answer = await client.post(f"{path}/{call}", json={"events": [wrong] * 3} if call == "feedbacks" else wrong)

    assert_problem(answer, 422, "invalid_request")


@pytest.mark.parametrize(
    "content",
    [
        pytest.param('{"losses":[' + ",".join(["[]"] * 600_000) + "]}", id="arrays"),
        pytest.param('{"losses":[' + ",".join(["[" * 900 + "]" * 900] * 1_000) + "]}", id="nested"),
        pytest.param('{"events":[' + ",".join(["{}"] * 600_000) + "]}", id="objects"),
        pytest.param('{"arm":0,' + ",".join(f'"{n}":0' for n in range(150_000)) + "}", id="fields"),
        pytest.param('{"losses":[' + ",".join(['""'] * 600_000) + "]}", id="texts"),
    ],
)
async def test_bodies_of_too_many_parts_are_refused_before_they_are_read(client, create, content):
    path = await create()

    answer = await post(client, f"{path}/feedback", content)

    assert_problem(answer, 422, "invalid_request")
    assert answer.json()["detail"] == "The body has too many parts"


@pytest.mark.parametrize("headers", [{}, {"Idempotency-Key": "once"}], ids=["plain", "keyed"])
async def test_the_longest_batch_with_every_field_is_taken_where_few_arms_are_allowed(make_client, headers):
    client = await make_client(max_arms=2, max_events=1000)
    learner = {"kind": "multiscale_tsallis", "arms": ["a", "b"]}
    options = {"segments": {"max": 2}, "tokens": True, "control": {"share": 0.5}}
    session = {"session_id": "s", "learner": learner, **options}
    assert (await client.post("/v1/sessions", json=session)).status_code == 201
    acted = await client.post("/v1/sessions/s/acts", json={"count": 1000, "eligible": ["a"], "segment": "s"})
    whole = {"label": "a", "loss": 1, "segment": "s", "event_id": "event"}
    events = [whole | {name: each[name] for name in ("slot", "token", "group")} for each in acted.json()["actions"]]
    others = {"arm", "features"}  # A label stands for an arm, and a token for what it carries.
    assert {*events[0]} == ArmEvent.model_fields.keys() - others

    answer = await client.post("/v1/sessions/s/feedbacks", json={"events": events}, headers=headers)

    assert (answer.status_code, answer.json().get("applied")) == (200, 1000), answer.text


LABELS = [f"the label of the arm with the number {number}" for number in range(1000)]


@pytest.mark.parametrize(
    "fields",
    [
        {"initial": [{"label": label, "acts": 3, "mean_loss": 0.5} for label in LABELS]},
        {"learner": {"kind": "fixed", "arms": LABELS, "probabilities": dict.fromkeys(LABELS, 0.001)}},
    ],
    ids=lambda fields: next(iter(fields)),
)
async def test_all_that_can_be_said_of_each_arm_is_taken_where_few_events_are_allowed(make_client, fields):
    client = await make_client(max_arms=1000, max_events=1)
    learner = {"kind": "multiscale_tsallis", "arms": LABELS}

    answer = await client.post("/v1/sessions", json={"session_id": "s", "learner": learner} | fields)

    assert answer.status_code == 201, answer.text


async def test_an_act_may_exclude_many_where_few_events_and_arms_are_allowed(make_client):
    client = await make_client(max_arms=2, max_events=1)
    learner = {"kind": "multiscale_tsallis", "arms": ["a", "b"]}
    await client.post("/v1/sessions", json={"session_id": "s", "learner": learner})

    answer = await client.post("/v1/sessions/s/act", json={"exclude": [f"label {n}" for n in range(10_000)]})

    assert (answer.status_code, answer.json()["skipped"]) == (200, 10_000), answer.text


async def test_what_texts_hold_is_no_part(client):
    labels = [f'{number}[{{:"\\' + "[{" * 30 for number in range(5_000)]

    answer = await client.post("/v1/sessions", json={"learner": {"kind": "dexp3", "arms": labels}})

    assert (answer.status_code, answer.json()["learner"]["arms"]) == (201, labels)


async def test_large_bodies_are_refused_declared_or_chunked(client, create):
    path = await create()

    async def chunks():
        for _ in range(40):
            yield b" " * 100_000

    declared = await post(client, f"{path}/feedbacks", b" " * 2_000_001)
    chunked = await post(client, f"{path}/feedbacks", chunks())

    assert_problem(declared, 413, "payload_too_large")
    assert_problem(chunked, 413, "payload_too_large")


async def test_slow_bodies_are_cut(make_client):
    import asyncio

    client = await make_client(body_timeout_seconds=0.05)
    never = asyncio.Event()

    async def slow():
        yield b"{"
        await never.wait()

    assert_problem(await post(client, "/v1/sessions", slow()), 408, "request_timeout")


async def test_ten_thousand_events_are_taken_and_one_more_refused(client, create):
    path = await create(learner={"kind": "dexp3", "n_arms": 1})
    for _ in range(10):
        await client.post(f"{path}/acts", json={"count": 1000})
    events = [{"arm": 0, "loss": 0.5}] * 10_000

    refused = await client.post(f"{path}/feedbacks", json={"events": [*events, events[0]]})
    taken = await client.post(f"{path}/feedbacks", json={"events": events})

    assert_problem(refused, 422, "invalid_request")
    assert taken.json()["applied"] == 10_000


async def test_many_wrong_events_make_a_short_answer(client, create):
    path = await create()
    text = "x" * 1000

    events = [{"arm": text, "loss": text, text: text}] * 300
    response = await client.post(f"{path}/feedbacks", json={"events": events})

    assert_problem(response, 422, "invalid_request")
    assert len(response.json()["errors"]) == 20
    assert "x" * 300 not in response.text


@pytest.mark.parametrize(
    ("media_type", "status"),
    [
        *(("Application/JSON", 200), ("application/json;charset=utf8", 200), ("application/json; profile=a;", 200)),
        *(("application/json; charset=UTF-8", 200), ('application/json; charset="utf-8"', 200)),
        *(("application/json; charset", 415), ("application/json; charset=", 415)),
        ("application/json; charset=utf-8; charset=utf-16", 415),
        ("application/json; charset*=utf-8''utf-16", 415),
        *(("application/json; charset*0=utf; charset*1=-8", 415), ("application/json, text/plain", 415)),
        ("=?utf-8?q?application/json?=", 415),
        ('application/json; a="' + ';\\"' * 20_000, 415),
        ("application/json" + "; a=b" * 10_000, 415),
    ],
)
async def test_media_types_are_read_strictly(client, create, media_type, status):
    path = await create()
    response = await post(client, f"{path}/acts", b'{"count":1}', {"content-type": media_type})

    assert response.status_code == status


@pytest.mark.parametrize(
    "headers",
    [
        [("content-type", "application/json"), ("content-type", "text/plain")],
        [("content-type", "application/json"), ("content-type", "application/json")],
        [("content-type", "application/json"), ("content-encoding", "identity"), ("content-encoding", "gzip")],
        [("content-type", "application/json"), ("content-encoding", "identity, gzip")],
    ],
)
async def test_headers_that_say_what_a_body_is_say_it_once(client, create, headers):
    path = await create()

    assert_problem(await post(client, f"{path}/acts", b'{"count":1}', headers), 415, "unsupported_media_type")
    assert (await client.get(path)).json()["slot"] == 0


SESSION = '"learner":{"kind":"dexp3","arms":["a","b"]}'


PLACES = [
    ("POST", "", '{"session_id":"%s",' + SESSION + "}"),
    ("POST", "", '{"learner":{"kind":"%s","n_arms":2}}'),
    ("POST", "", '{"learner":{"kind":"dexp3","arms":["%s"]}}'),
    ("POST", "", '{"learner":{"kind":"dbgd","dim":1,"feasible_set":{"kind":"%s"}}}'),
    ("POST", "", '{"learner":{"kind":"clw","n_arms":2,"max_delay":1,"learning_rate":1,"schedule":"%s"}}'),
    ("POST", "", '{"%s":1,' + SESSION + "}"),
    ("POST", "/s/act", '{"%s":1}'),
    ("POST", "/s/feedback", '{"label":"%s","loss":0.5}'),
    ("POST", "/s/feedback", '{"label":"a","loss":0.5,"event_id":"%s"}'),
    ("POST", "/s/feedbacks", '{"events":[{"label":"%s","loss":0.5}]}'),
    ("PATCH", "/s/arms", '{"add":["%s"]}'),
    ("PATCH", "/s/arms", '{"remove":["%s"]}'),
]


@pytest.mark.parametrize("key", [{}, {"Idempotency-Key": "k"}], ids=["plain", "keyed"])
@pytest.mark.parametrize(
    "text",
    [r"\ud800", r"x\udfff", r"\ude00\ud83d", r"\ud83dA", "a" * 70_000],
    ids=["high", "low", "pair in the wrong order", "half a pair", "long"],
)
@pytest.mark.parametrize(("method", "call", "body"), PLACES, ids=lambda place: place[:60])
async def test_they_are_refused_and_the_answer_is_small_and_valid(client, method, call, body, text, key):
    created = await client.post("/v1/sessions", content=f'{{"session_id":"s",{SESSION}}}', headers=JSON)
    await client.post("/v1/sessions/s/act")
    before = (await client.get("/v1/sessions/s")).json()

    body = body.replace("%s", text)
    answer = await client.request(method, f"/v1/sessions{call}", content=body, headers=JSON | key)

    assert created.status_code == 201
    assert_problem(answer, 422, "invalid_request")
    assert text[-600:] not in answer.text
    assert (await client.get("/v1/sessions/s")).json() == before


@pytest.mark.parametrize("path", ["/livez?x=1", "/readyz?x", "/metrics?x=1&x=2"])
async def test_what_probes_add_to_an_address_is_ignored(client, path):
    assert (await client.get(path)).status_code == 200


@pytest.mark.parametrize(
    ("query", "field"),
    [
        *(("on_surplu=skip", "on_surplu"), ("on_surplus=SKIP", "on_surplus"), ("on_surplus=", "on_surplus")),
        *((f"on_surplus={first}&on_surplus=skip", "on_surplus") for first in ("skip", "refuse")),
        ("%00=%ff", "\0"),
    ],
)
async def test_query_parameters_are_known_and_given_once(client, create, query, field):
    path = await create()
    await client.post(f"{path}/act")

    answer = await client.post(f"{path}/feedback?{query}", json={"arm": 0, "loss": 0.5})

    assert_problem(answer, 422, "invalid_request")
    assert answer.json()["errors"][0]["field"] == field
    assert (await client.get(path)).json()["feedbacks"] == 0


@pytest.mark.parametrize("limit", ["", "0", "1001", "-1", "+1", "1_0", "1e2", "5.0", "%205", "%D9%A1", "9" * 5000])
async def test_the_limit_of_a_page_is_a_whole_number(client, limit):
    assert_problem(await client.get(f"/v1/sessions?limit={limit}"), 422, "invalid_request")


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/nowhere", 404, "not_found"),
        ("GET", "/v1/sessions/", 404, "not_found"),
        ("POST", "/v1/sessions/s/act/", 404, "not_found"),
        ("GET", "/v1/sessions/s/act", 405, "method_not_allowed"),
        ("PUT", "/v1/sessions", 405, "method_not_allowed"),
        ("GET", "/v1/sessions/unknown", 404, "unknown_session"),
    ],
)
async def test_unknown_routes_and_methods_have_the_same_shape(client, method, path, status, code):
    assert_problem(await client.request(method, path), status, code)


@pytest.mark.parametrize(
    ("call", "methods"),
    [
        ("/v1/sessions", "GET, HEAD, POST"),
        ("/v1/sessions/a", "DELETE, GET, HEAD, PATCH"),
        ("/v1/sessions/a/act", "POST"),
    ],
)
async def test_a_refused_method_is_told_all_that_are_offered(client, call, methods):
    answer = await client.put(call)

    assert_problem(answer, 405, "method_not_allowed")
    assert answer.headers["allow"] == methods
