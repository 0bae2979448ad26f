"""A service that serves all hosts, and pieces of requests to it."""

import pytest

from tests.support.connections import JSON, request
from tests.support.running import RunningService, create

HEAD = b"POST /v1/sessions/s/acts HTTP/1.1\r\nHost: localhost\r\n" + JSON
BODY = b'{"count":1}'
CHUNKS = b"b\r\n" + BODY + b"\r\n0\r\n\r\n"
SIZE = b"Content-Length: 11\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"
ACTS = request("/v1/sessions/s/acts", BODY)


@pytest.fixture(scope="package")
def service(tmp_path_factory):
    """One that serves all hosts, with session ``s`` of three arms."""
    folder, environment = tmp_path_factory.mktemp("service"), {"BANDIT_ALLOWED_HOSTS": "*"}
    with RunningService(folder, "--store-url", "memory://", environment=environment) as service:
        with service.client() as client:
            create(client, session_id="s")
        yield service
