"""Health while the store is down, frozen and back."""

import contextlib
import sys

import pytest

from tests.support.http import http_client
from tests.support.real_redis import RedisServer
from tests.support.running import act, create
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc"), pytest.mark.processes]


def test_a_store_that_is_down_makes_it_wait_and_heal(run, tmp_path, server_program):
    with contextlib.closing(RedisServer(tmp_path)) as server:
        service = run("--store-url", server.url, "--workers", "2")
        with http_client(service.url) as client:
            wait_until(lambda: client.get("/livez").status_code == 200)
            down = client.get("/readyz")
            assert (down.status_code, down.json()["code"]) == (503, "store_unavailable")
            server.start()
            wait_until(lambda: client.get("/readyz").status_code == 200)
            act(client, create(client))
        assert service.stop() == 0


def test_health_asked_by_head_is_that_of_get_without_body(run, own_redis_server):
    service = run("--store-url", own_redis_server.url)
    with service.client() as client:
        for status in (200, 503):
            for path in ("/livez", "/readyz"):
                shown, asked = (client.request(method, path) for method in ("GET", "HEAD"))
                assert asked.status_code == shown.status_code == (200 if path == "/livez" else status)
                assert asked.headers.keys() == shown.headers.keys()
                assert asked.headers["content-length"] == str(len(shown.content))
                assert asked.content == b""
            own_redis_server.freeze()
        own_redis_server.thaw()
        assert client.put("/livez").headers["allow"] == "GET, HEAD"
