"""Bodies as bytes: JSON that is not, media types, sizes, and one shape of errors."""

import gzip

import pytest

JSON = {"content-type": "application/json"}


async def post(client, path, content, headers=JSON):
    return await client.post(path, content=content, headers=headers)


def assert_problem(response, status, code):
    assert response.headers["content-type"] == "application/problem+json"
    body = response.json()
    assert (response.status_code, body["status"], body["code"]) == (status, status, code)
    assert body.keys() >= {"type", "title", "detail"}
    assert len(response.content) < 10_000


@pytest.mark.parametrize(
    "number", ["NaN", "Infinity", "-Infinity", "1e400", "-1e400", '"NaN"', "1" * 5000, "0x10", "01", "1.", "+1"]
)
async def test_numbers_are_strict_json(client, create, number):
    path = await create()
    await client.post(f"{path}/acts", json={"count": 20})

    single = await post(client, f"{path}/feedback", f'{{"arm":0,"loss":{number}}}')
    batch = await post(client, f"{path}/feedbacks", f'{{"events":[{{"arm":0,"loss":{number}}}]}}')

    assert_problem(single, 422, "invalid_request")
    assert_problem(batch, 422, "invalid_request")


@pytest.mark.parametrize(
    "content", ["null", "[]", "5", '"x"', "true", "", "{", '{"a"', "\ufeff{}", "[" * 200_000, '{"a":' * 20_000]
)
@pytest.mark.parametrize("call", ["feedback", "feedbacks", "acts"])
async def test_bodies_are_objects(client, create, content, call):
    path = await create()

    assert_problem(await post(client, f"{path}/{call}", content.encode()), 422, "invalid_request")
    assert (await client.post(f"{path}/act")).status_code == 200


@pytest.mark.parametrize("content", ['{"a":' * 20_000 + "1" + "}" * 20_000, "[" * 5_000])
async def test_a_body_that_is_too_deep_is_told_so(client, create, content):
    answer = await post(client, f"{await create()}/feedback", content)

    assert_problem(answer, 422, "invalid_request")
    assert answer.json()["detail"] == "The body has too many objects and arrays within each other"


@pytest.mark.parametrize("content", ["null", "[]", "5", '"x"', '{"count": 2}'])
async def test_act_takes_nothing_or_an_empty_object(client, create, content):
    path = await create()

    assert_problem(await post(client, f"{path}/act", content), 422, "invalid_request")
    assert (await client.get(path)).json()["slot"] == 0


@pytest.mark.parametrize(
    "content",
    [
        b'{"session_id":"\\ud800","learner":{"kind":"dexp3","n_arms":2}}',
        b'{"session_id":"a","session_id":"b","learner":{"kind":"dexp3","n_arms":2}}',
        b'{"learner":{"kind":"dexp3","arms":["\\udfff"]}}',
        b'{"learner":{"kind":"dexp3","n_arms":2},"\\ud800":1}',
        b'{"session_id":"\xff","learner":{"kind":"dexp3","n_arms":2}}',
        '{"learner":{"kind":"dexp3","n_arms":2}}'.encode("utf-16"),
        b'{"learner":' + b"[" * 900 + b"]" * 900 + b"}",
    ],
)
async def test_text_is_utf8_with_each_field_once(client, content):
    response = await post(client, "/v1/sessions", content)

    assert_problem(response, 422, "invalid_request")


@pytest.mark.parametrize(
    "headers",
    [
        {"content-type": "text/plain"},
        {"content-type": "applications/json"},
        {"content-type": "application/x-www-form-urlencoded"},
        {"content-type": "application/json; charset=utf-16"},
        {"content-type": "application/json; charset=nonsense"},
        {},
        JSON | {"content-encoding": "gzip"},
        JSON | {"content-encoding": "GZIP "},
        JSON | {"content-encoding": "br"},
        JSON | {"content-encoding": "zstd"},
    ],
)
async def test_bodies_are_json_as_they_are(client, create, headers):
    path = await create()
    body = gzip.compress(b'{"count":1}') if "content-encoding" in headers else b'{"count":1}'

    response = await post(client, f"{path}/acts", body, headers)

    assert_problem(response, 415, "unsupported_media_type")
    assert "application/json" in response.json()["detail"] or "Content-Encoding" in response.json()["detail"]


async def test_a_charset_of_utf8_is_fine(client, create):
    path = await create()

    response = await post(
        client, f"{path}/acts", b'{"count":1}', {"content-type": "application/json; charset=UTF-8"}
    )

    assert response.status_code == 200


@pytest.mark.parametrize(
    ("media_type", "status"),
    [
        ("Application/JSON", 200),
        ("application/json;charset=utf8", 200),
        ('application/json; charset="utf-8"', 200),
        ("application/json; profile=a;", 200),
        ("application/json; charset", 415),
        ("application/json; charset=", 415),
        ("application/json; charset=utf-8; charset=utf-16", 415),
        ("application/json; charset*=utf-8''utf-16", 415),
        ("application/json; charset*0=utf; charset*1=-8", 415),
        ("application/json, text/plain", 415),
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


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("on_surplu=skip", "on_surplu"),
        ("on_surplus=skip&on_surplus=skip", "on_surplus"),
        ("on_surplus=refuse&on_surplus=skip", "on_surplus"),
        ("on_surplus=SKIP", "on_surplus"),
        ("on_surplus=", "on_surplus"),
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


async def test_what_texts_hold_is_no_part(client):
    labels = [f'{number}[{{:"\\' + "[{" * 30 for number in range(5_000)]

    answer = await client.post("/v1/sessions", json={"learner": {"kind": "dexp3", "arms": labels}})

    assert answer.status_code == 201
    assert answer.json()["learner"]["arms"] == labels


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

    response = await client.post(
        f"{path}/feedbacks", json={"events": [{"arm": text, "loss": text, text: text}] * 300}
    )

    assert_problem(response, 422, "invalid_request")
    assert len(response.json()["errors"]) == 20
    assert "x" * 300 not in response.text


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
