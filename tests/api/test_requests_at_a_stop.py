"""Requests that are still served when the grace time of a stop ends."""

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support.running import RunningService, create
from tests.support.waiting import wait_until


async def test_a_cancelled_request_is_told_to_come_again(make_client):
    """As uvicorn does it to those that are still served when the grace time ends."""
    client = await make_client()
    transport = client._transport
    started = asyncio.Event()
    app = transport.app
    messages = []

    async def receive():
        started.set()
        await asyncio.Event().wait()

    async def send(message):
        messages.append(message)

    scope = {
        "type": "http",
        "method": "POST",
        "path": "/v1/sessions/a/feedback",
        "headers": [(b"content-type", b"application/json"), (b"content-length", b"9")],
        "query_string": b"",
    }
    task = asyncio.create_task(app(scope, receive, send))
    await started.wait()
    task.cancel()
    await task

    start, body = messages
    headers = dict(start["headers"])
    assert start["status"] == 503
    assert headers[b"content-type"] == b"application/problem+json"
    assert headers[b"retry-after"] == b"1"
    assert headers[b"connection"] == b"close"
    assert json.loads(body["body"])["code"] == "overloaded"


@pytest.mark.processes
def test_at_the_end_of_the_grace_time_requests_get_a_problem(tmp_path, own_redis_server):
    flags = ("--store-url", own_redis_server.url, "--grace-seconds", "1", "--store-timeout-seconds", "3")
    with RunningService(tmp_path, *flags) as service, service.client() as client, ThreadPoolExecutor(1) as pool:
        session = create(client)
        own_redis_server.freeze()
        try:
            waiting = pool.submit(client.post, f"/v1/sessions/{session}/act")
            wait_until(lambda: client.get("/readyz").status_code == 503)
            service.stop()
        finally:
            own_redis_server.thaw()
        answer = waiting.result()

    assert answer.status_code == 503
    assert answer.headers["content-type"] == "application/problem+json"
    assert "retry-after" in answer.headers
    assert answer.json()["code"] in {"overloaded", "store_unavailable"}
