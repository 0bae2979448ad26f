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
    [("/v1/sessions", "GET, POST"), ("/v1/sessions/a", "DELETE, GET"), ("/v1/sessions/a/act", "POST")],
)
async def test_a_refused_method_is_told_all_that_are_offered(client, call, methods):
    answer = await client.put(call)

    assert_problem(answer, 405, "method_not_allowed")
    assert answer.headers["allow"] == methods
