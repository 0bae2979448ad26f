"""Headers that say what a body is."""

import pytest

from tests.support.problems import assert_problem, post


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
