"""What a key's role lets it do, and that nothing outside its prefix exists for it."""

import pytest

from tests.api.keys.conftest import LEARNER
from tests.support.api_keys import ADMIN, CLIENT, SETUP, SHOP, bearer


async def test_a_client_acts_feeds_back_and_views_and_no_more(client, problem):
    headers = bearer(CLIENT)
    path = "/v1/sessions/other"
    arm = (await client.post(f"{path}/act", headers=headers)).json()["arm"]
    await client.post(f"{path}/acts", json={"count": 2}, headers=headers)
    event = {"arm": arm, "loss": 0.5}
    assert (await client.post(f"{path}/feedback", json=event, headers=headers)).status_code == 200
    assert (await client.post(f"{path}/feedbacks", json={"events": []}, headers=headers)).status_code == 422
    assert (await client.get(path, headers=headers)).status_code == 200

    refused = [
        ("POST", "/v1/sessions"),
        ("GET", "/v1/sessions"),
        ("DELETE", path),
        ("PATCH", f"{path}/arms"),
        ("GET", "/metrics"),
        ("GET", "/docs"),
    ]
    for method, target in refused:
        problem(await client.request(method, target, headers=headers), 403, "forbidden")


async def test_an_admin_may_do_everything(client):
    headers = bearer(ADMIN)

    assert (await client.get("/metrics", headers=headers)).status_code == 200
    assert (await client.get("/docs", headers=headers)).status_code == 200
    assert len((await client.get("/v1/sessions", headers=headers)).json()["sessions"]) == 2
    assert (await client.get("/nowhere", headers=headers)).status_code == 404
    assert (await client.delete("/v1/sessions/other", headers=headers)).status_code == 204


@pytest.mark.parametrize(
    ("method", "path", "key"),
    [
        ("GET", "/v1/sessions/other", SHOP),
        ("POST", "/v1/sessions/other/act", SHOP),
        ("POST", "/v1/sessions/%6Fther/act", SHOP),
        ("DELETE", "/v1/sessions/other", SETUP),
        ("PATCH", "/v1/sessions/other/arms", SETUP),
    ],
)
async def test_sessions_outside_the_prefix_do_not_exist(client, problem, method, path, key):
    there = problem(await client.request(method, path, headers=bearer(key)), 404, "unknown_session")
    missing = path.replace("other", "shop-missing").replace("%6Fther", "shop-missing")
    nowhere = await client.request(
        method, missing, json={"add": ["a"]} if method == "PATCH" else None, headers=bearer(key)
    )

    assert there.json() == nowhere.json()


async def test_a_list_and_its_cursors_show_nothing_outside_the_prefix(client):
    for number in range(3):
        for prefix in ("a", "shop-", "shoq", "z"):
            body = {"session_id": f"{prefix}{number}x", "learner": LEARNER}
            await client.post("/v1/sessions", json=body, headers=bearer(ADMIN))
    seen, cursor = [], None
    while True:
        query = {"limit": 1} | ({"cursor": cursor} if cursor else {})
        page = (await client.get("/v1/sessions", params=query, headers=bearer(SETUP))).json()
        seen += [session["session_id"] for session in page["sessions"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
        assert cursor.endswith(seen[-1])

    assert seen == ["shop-0x", "shop-1", "shop-1x", "shop-2x"]
    for other in ("other", "shop-1\n", "\nshop-1", "shop-é", "shop-1 ", f"shop-{'a' * 124}", ""):
        answer = await client.get("/v1/sessions", params={"cursor": f"after~{other}"}, headers=bearer(SETUP))
        assert answer.status_code == 422, other
