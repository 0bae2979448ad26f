"""Bodies as bytes: JSON that is not, and JSON that is read strictly."""

import gzip

import pytest

from tests.support.problems import JSON, assert_problem, post


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
