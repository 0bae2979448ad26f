"""What is tried again, what isn't, and whose fault it is. The peer is a scripted transport."""

import errno
from functools import partial

import httpx
import pytest

from loadtest.client import Client
from loadtest.errors import ClientLimitError, ServiceError


class Script:
    """Answers each attempt with the next step of a script; remembers attempts and pauses."""

    def __init__(self, *steps):
        self.steps = list(steps)
        self.requests = []
        self.pauses = []

    def __call__(self, request):
        self.requests.append(request)
        step = self.steps.pop(0)
        if isinstance(step, Exception):
            raise step
        return step

    def client(self, retry_seconds=60.0):
        http = httpx.Client(transport=httpx.MockTransport(self), base_url="http://service")
        return Client(http, retry_seconds, sleep=self.pauses.append)


def away(retry_after=None):
    headers = {} if retry_after is None else {"Retry-After": retry_after}
    return httpx.Response(503, headers=headers, json={"code": "store_unavailable"})


def done():
    return httpx.Response(200, json={"applied": 1})


TROUBLES = [
    away,
    lambda: httpx.Response(502, text="bad gateway"),
    *(
        partial(kind, "trouble")
        for kind in (httpx.ConnectError, httpx.ReadError, httpx.ReadTimeout, httpx.RemoteProtocolError)
    ),
]


@pytest.mark.parametrize("trouble", TROUBLES)
def test_a_call_is_made_again_with_the_same_bytes_and_key(trouble):
    script = Script(trouble(), trouble(), done())
    client = script.client()

    assert client.call("feedback", "POST", "/x", {"loss": 0.1}, key="k") == {"applied": 1}

    sent = [(request.content, request.headers["Idempotency-Key"]) for request in script.requests]
    assert sent == [(b'{"loss": 0.1}', "k")] * 3
    assert (client.log.retries.total(), client.log.calls, client.log.client_errors) == (2, 1, 0)


def test_pauses_grow_and_follow_retry_after_within_bounds():
    script = Script(away(), away("1"), away("3600"), away("soon"), done())
    script.client().call("act", "POST", "/x")

    assert script.pauses == [0.05, 1.0, 2.0, 0.4]


REASONS = {"ConnectError": httpx.ConnectError("refused"), "status 503 store_unavailable": away()}
REASONS["status 502"] = httpx.Response(502, text="bad gateway")


@pytest.mark.parametrize("reason", REASONS)
def test_the_retry_budget_is_bounded_and_the_reason_is_given(reason):
    script = Script(REASONS[reason])

    with pytest.raises(ServiceError, match=f"/x: {reason}; given up after 0 s"):
        script.client(retry_seconds=0).call("act", "POST", "/x")


@pytest.mark.parametrize("status", [400, 404, 409, 422, 500])
def test_a_refusal_is_final(status):
    script = Script(httpx.Response(status, json={"code": "surplus_feedback", "detail": "nothing is outstanding"}))

    with pytest.raises(ServiceError, match=f"status {status}: surplus_feedback: nothing is outstanding"):
        script.client().call("feedback", "POST", "/x", {})
    assert len(script.requests) == 1


@pytest.mark.parametrize("answer", [httpx.Response(200, text="<html>"), httpx.Response(500, text="<html>")])
def test_an_answer_that_is_not_json_is_an_error(answer):
    with pytest.raises(ServiceError):
        Script(answer).client().call("act", "POST", "/x")


def out_of(number):
    error = httpx.ConnectError("failed")
    error.__cause__ = OSError(number, "the machine has none left")
    return error


OWN = [httpx.PoolTimeout("pool"), httpx.LocalProtocolError("illegal")]
OWN += [out_of(errno.EADDRNOTAVAIL), out_of(errno.EMFILE)]


@pytest.mark.parametrize("error", OWN)
def test_the_clients_own_failures_are_counted_apart_and_end_the_run(error):
    client = Script(error).client()

    with pytest.raises(ClientLimitError, match="not the service"):
        client.call("act", "POST", "/x")
    assert (client.log.client_errors, client.log.retries.total()) == (1, 0)


def test_a_refused_connection_is_the_services_fault():
    client = Script(out_of(errno.ECONNREFUSED), done()).client()
    client.call("act", "POST", "/x")

    assert (client.log.client_errors, dict(client.log.retries)) == (0, {"ConnectError": 1})


def test_any_answer_shows_that_the_service_is_reachable():
    script = Script(httpx.Response(404), away(), httpx.ReadTimeout("starting"))
    client = script.client()

    for _ in range(3):
        client.check_reachable()

    assert [request.url.path for request in script.requests] == ["/livez"] * 3


def test_without_an_answer_the_address_is_named_at_once():
    """One attempt: whoever forgot to start the service doesn't wait for the time that calls are tried again."""
    script = Script(httpx.ConnectError("refused"))

    with pytest.raises(ServiceError, match=r"http://service does not answer \(ConnectError\)"):
        script.client().check_reachable()
    assert script.pauses == []
    assert script.requests[0].extensions["timeout"]["connect"] <= 2
