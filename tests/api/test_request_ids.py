"""Every request has an id: its own where that is sane, else one of ours."""

import re

import pytest

OURS = re.compile(r"[0-9a-f]{16}-[0-9a-f]+")


@pytest.mark.parametrize("given", ["a", "x" * 128, "2f:9 (b)", "~!"])
async def test_a_sane_request_id_is_taken_and_sent_back(client, given):
    assert (await client.get("/livez", headers={"X-Request-ID": given})).headers["x-request-id"] == given


@pytest.mark.parametrize("given", [None, "", "x" * 129, "a\tb", "é".encode(), b"a\x1b[31mb", " "])
async def test_otherwise_one_is_made(client, given):
    headers = {} if given is None else {"X-Request-ID": given}
    first, second = [(await client.get("/livez", headers=headers)).headers["x-request-id"] for _ in range(2)]

    assert OURS.fullmatch(first)
    assert OURS.fullmatch(second)
    assert first != second


async def test_errors_of_all_kinds_carry_an_id(client):
    for method, path in (("GET", "/nowhere"), ("PUT", "/livez"), ("GET", "/v1/sessions/none")):
        assert OURS.fullmatch((await client.request(method, path)).headers["x-request-id"])
