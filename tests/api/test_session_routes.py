"""Every route of one session: what it answers where there is no such session, and where the store is away."""

import pytest
from fastapi.routing import APIRoute

from service.api.routes import ROUTES
from service.app import create_app
from service.store import open_store
from service.store.base import StoreOptions
from service.store.memory import MemoryStore
from tests.api.conftest import default_settings
from tests.support.problems import assert_problem
from tests.support.real_redis import free_port

SESSION = "/v1/sessions/{session_id}"
CALLS = [
    (method, route.path)
    for route in ROUTES
    if isinstance(route, APIRoute) and route.path.startswith(SESSION)
    for method in sorted(route.methods)
]


@pytest.fixture(scope="module")
def described():
    return create_app(default_settings(), MemoryStore()).openapi()["paths"]


@pytest.fixture
def call(described):
    """Make a call with the first body that its route shows as an example."""

    async def answer(client, method, path, session_id):
        content = described[path].get(method.lower(), {}).get("requestBody", {}).get("content", {})
        examples = content.get("application/json", {}).get("examples", {})
        body = next((example["value"] for example in examples.values()), None)
        return await client.request(method, path.replace("{session_id}", session_id), json=body)

    return answer


def assert_refused(method, answer, status, code):
    assert answer.status_code == status
    if method != "HEAD":
        assert_problem(answer, status, code)


def test_there_are_routes_of_one_session():
    assert len(CALLS) >= 18


@pytest.mark.parametrize("session_id", ["unknown", "no*id"])
@pytest.mark.parametrize(("method", "path"), CALLS)
async def test_an_id_that_no_session_has_is_unknown(client, call, method, path, session_id):
    assert_refused(method, await call(client, method, path, session_id), 404, "unknown_session")


@pytest.mark.parametrize(("method", "path"), CALLS)
async def test_while_the_store_is_away_clients_are_to_come_again(make_client, call, method, path):
    store = open_store(f"redis://127.0.0.1:{free_port()}/0", options=StoreOptions(retry_seconds=0.1))

    answer = await call(await make_client(store), method, path, "s")

    assert_refused(method, answer, 503, "store_unavailable")
    assert int(answer.headers["retry-after"]) >= 1
