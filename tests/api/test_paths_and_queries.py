"""Addresses and methods: routes that are not there, and query parameters that are known and given once."""

import pytest

from tests.support.problems import assert_problem


@pytest.mark.parametrize("path", ["/livez?x=1", "/readyz?x", "/metrics?x=1&x=2"])
async def test_what_probes_add_to_an_address_is_ignored(client, path):
    assert (await client.get(path)).status_code == 200


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
