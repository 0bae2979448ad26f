"""A real nginx with docs/nginx.conf before the service: a prefix, bodies, errors."""

import json
import re
import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from loadtest.processes import free_port
from service.api.problems import problem_fields
from service.errors import (
    BadRequestError,
    HeadTooLargeError,
    MethodNotAllowedError,
    NotFoundError,
    OverloadedError,
    PayloadTooLargeError,
)
from tests.support.connections import Answer, answers
from tests.support.nginx import CONFIG, before
from tests.support.running import RunningService, create
from tests.support.waiting import SECONDS

pytestmark = pytest.mark.servers("nginx")


@pytest.fixture(scope="module")
def balanced(tmp_path_factory):
    """A client of nginx before a service that knows its prefix."""
    tmp_path = tmp_path_factory.mktemp("balanced")
    with RunningService(tmp_path, "--store-url", "memory://", "--root-path", "/bandit") as service:
        service.wait_ready()
        with before(service.url.removeprefix("http://"), tmp_path) as client:
            yield client


def test_requests_of_a_session_go_to_one_replica_and_others_to_all(tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    with ExitStack() as stack:
        urls = []
        for folder in (first, second):
            folder.mkdir()
            service = stack.enter_context(RunningService(folder, "--store-url", "memory://"))
            service.wait_ready()
            urls.append(service.url.removeprefix("http://"))
        both = CONFIG.replace("server service:8000", f"server {urls[0]} max_fails=1;\n        server {urls[1]}")
        client = stack.enter_context(before("", tmp_path, both))

        def replica(path):
            return client.post(path).headers["x-request-id"].partition("-")[0]

        of_sessions = [
            {
                replica(f"{prefix}/v1/sessions/s{n}{call}")
                for prefix in ("", "/bandit")
                for call in ("/act", "/feedback?a=1")
            }
            for n in range(20)
        ]
        others = [{replica(path) for _ in range(20)} for path in ("/v1/sessions", "/bandit/v1/sessions/import")]

    assert [len(found) for found in of_sessions] == [1] * 20
    assert len(set.union(*of_sessions)) == 2
    assert others == [set.union(*of_sessions)] * 2


def check_problem(answer, error):
    """Check that it is the service's own problem but for the detail."""
    status = answer.status if isinstance(answer, Answer) else answer.status_code
    body = json.loads(answer.body if isinstance(answer, Answer) else answer.content)
    assert (status, answer.headers["content-type"]) == (error.status, "application/problem+json"), body
    assert body["detail"]
    assert body == problem_fields(error(body["detail"]))


def sent(client, data):
    """The answer to these bytes."""
    with socket.create_connection((client.base_url.host, client.base_url.port), SECONDS) as connection:
        connection.sendall(data)
        return answers(connection, 1)[0]


def test_the_service_works_under_a_prefix(balanced):
    body = {"session_id": "s", "learner": {"kind": "dexp3", "n_arms": 3}}

    assert balanced.post("/bandit/v1/sessions", json=body).status_code == 201
    arm = balanced.post("/bandit/v1/sessions/s/act").json()["arm"]
    assert balanced.post("/v1/sessions/s/feedback", json={"arm": arm, "loss": 0}).json()["applied"] == 1
    assert balanced.post("/bandit/v1/sessions/s/feedback/", json={"arm": arm, "loss": 0}).status_code == 404


def test_the_documentation_loads_under_a_prefix(balanced):
    page = balanced.get("/bandit/docs").text
    for address in re.findall(r"""(?:src|href)="([^"]+)"|url: '([^']+)'""", page):
        assert balanced.get(f"/bandit/{''.join(address)}").status_code == 200, address

    assert balanced.get("/bandit/openapi.json").json()["servers"] == [{"url": "/bandit"}]


def test_an_encoded_slash_is_no_part_of_a_path_with_or_without_the_prefix(balanced):
    session = create(balanced)

    for prefix in ("", "/bandit"):
        for path in (f"/v1/sessions/{session}%2Fact", f"/v1%2fsessions/{session}/act"):
            check_problem(balanced.post(prefix + path), NotFoundError)
    assert balanced.get(f"/v1/sessions/{session}").json()["slot"] == 0


@pytest.mark.parametrize("path", ["/bandits", "/.problems/503", "/.closing"])
def test_what_is_no_resource_is_so_with_and_without_the_prefix(balanced, path):
    check_problem(balanced.get(path), NotFoundError)


@pytest.mark.parametrize("path", ["/", "/bandit", "/bandit/", "/bandit?a=1"])
def test_the_root_is_the_same_with_and_without_the_prefix(balanced, path):
    assert balanced.get(path).json()["docs"] == "docs"
    assert "dashboard-assets" in balanced.get(path, headers={"Accept": "text/html"}).text


def test_the_query_goes_along_with_the_prefix(balanced):
    answer = balanced.get("/bandit/v1/sessions?limit=0&limit=%31")

    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, "limit")


def test_a_body_that_is_too_large_is_the_same_problem_as_without_it(balanced):
    answer = balanced.post("/v1/sessions", content=b" " * 2_000_001, headers={"Content-Type": "application/json"})

    check_problem(answer, PayloadTooLargeError)


def test_a_head_that_the_service_reads_gets_through(balanced):
    headers = {"X-Long": "a" * 60_000}

    assert balanced.get("/livez", headers=headers).status_code == 200
    assert balanced.get(f"/v1/sessions/{'a' * 16_000}").json()["code"] == "unknown_session"


@pytest.mark.parametrize(
    ("line", "headers"),
    [
        pytest.param(f"/{'a' * 17_000}", "", id="address that the service refuses"),
        pytest.param(f"/{'a' * 70_000}", "", id="address that nginx refuses"),
        pytest.param("/livez", f"X-Long: {'a' * 70_000}\r\n", id="long header"),
        pytest.param("/livez", "".join(f"X-{n}: {'a' * 60_000}\r\n" for n in range(9)), id="many long headers"),
    ],
)
def test_a_head_that_is_too_large_is_the_same_problem_as_without_it(balanced, line, headers):
    request = f"GET {line} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n"
    check_problem(sent(balanced, request.encode()), HeadTooLargeError)


@pytest.mark.parametrize(
    "head",
    [
        *("NONSENSE\r\n", "GET /livez HTTP/1.1\r\n", "GET /livez HTTP/1.1\r\nHost: a/b\r\n"),
        *(
            f"{line}\r\nHost: localhost\r\n"
            for line in (
                "GET /livez HTTP/2.0",
                *(f"GET {path} HTTP/1.1" for path in ("/%zz", "/liv ez", "/../livez")),
            )
        ),
        *(
            f"POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\n{field}\r\n"
            for field in ("Transfer-Encoding: gzip", "Content-Length: a")
        ),
    ],
)
def test_what_is_no_request_is_a_problem(balanced, head):
    check_problem(sent(balanced, f"{head}\r\n".encode()), BadRequestError)


def test_a_method_that_nginx_would_refuse_is_the_services_problem(balanced):
    answer = sent(balanced, b"TRACE /bandit/livez HTTP/1.1\r\nHost: localhost\r\n\r\n")

    check_problem(answer, MethodNotAllowedError)
    assert answer.headers["allow"] == "get, head"


@pytest.mark.parametrize("path", ["/v1/sessions", "/bandit/v1/sessions/s"])
def test_a_service_that_is_away_is_a_reason_to_send_again(tmp_path, path):
    with before(f"127.0.0.1:{free_port()}", tmp_path) as client:
        answer = client.get(path)

    check_problem(answer, OverloadedError)
    assert answer.headers["retry-after"] == "1"


def test_a_service_that_does_not_answer_is_a_reason_to_send_again(tmp_path):
    hasty = CONFIG.replace("proxy_read_timeout 2s;", "proxy_read_timeout 100ms;")
    port = free_port()
    with socket.create_server(("127.0.0.1", port)), before(f"127.0.0.1:{port}", tmp_path, hasty) as client:
        answer = client.post("/bandit/v1/sessions/s/act")

    assert hasty != CONFIG
    check_problem(answer, OverloadedError)
    assert answer.headers["retry-after"] == "1"


def test_a_service_that_breaks_off_is_a_reason_to_send_again(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor(1) as background:
        breaking = background.submit(break_off, server)
        with before(f"127.0.0.1:{server.getsockname()[1]}", tmp_path) as client:
            answer = client.post("/v1/sessions/s/act")
        breaking.result(SECONDS)

    check_problem(answer, OverloadedError)
    assert answer.headers["retry-after"] == "1"


def break_off(server):
    """Take one request and close its connection."""
    connection, _ = server.accept()
    with connection:
        assert connection.recv(65_536)
