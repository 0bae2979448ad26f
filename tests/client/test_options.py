"""Options of a client: from the environment, refused, not printed, and compared by ``ensure``."""

import asyncio
import json

import httpx
import pytest

from service.client import Bandits, BanditsError, ReportRules, attempts
from tests.client.conftest import ACTION, SETTLED, VIEW, Script, problem, scripted
from tests.client.test_time_limits import slow_server

pytestmark = pytest.mark.usefixtures("short_pauses")


def test_address_and_key_come_from_the_environment(monkeypatch):
    script = Script(httpx.Response(200, json=SETTLED))
    with pytest.raises(ValueError, match="DELAYED_BANDITS_URL"):
        Bandits()
    monkeypatch.setenv("DELAYED_BANDITS_URL", "http://service/prefix")
    monkeypatch.setenv("DELAYED_BANDITS_API_KEY", "secret")
    Bandits(transport=script).session("s").feedback("hat", loss=1)
    Bandits("http://other", api_key="other", transport=script).session("s").feedback("hat", loss=1)

    assert [str(each.url) for each in script.requests] == [
        "http://service/prefix/v1/sessions/s/feedbacks",
        "http://other/v1/sessions/s/feedbacks",
    ]
    assert [each.headers["Authorization"] for each in script.requests] == ["Bearer secret", "Bearer other"]
    assert json.loads(script.requests[0].content) == {"events": [{"label": "hat", "loss": 1}]}


INF, NO_HOSTS = (
    float("inf"),
    ("http://a..b", "http://xn--a", "http://[::1", "http://\u2603", "http://u:p@", "a" * 300),
)
WRONG = [(url, {}) for url in ("localhost:8000", "ftp://service", "http://service?a=b", *NO_HOSTS)]
WRONG += [("http://service", wrong) for wrong in ({"timeout": 0}, {"timeout": INF}, {"api_key": "two words"})]
WRONG += [
    ("http://service", wrong) for wrong in ({"max_retries": -1}, {"on_error": "log"}, {"on_error": asyncio.sleep})
]


@pytest.mark.parametrize(("url", "options"), WRONG)
def test_what_no_call_can_be_made_with_is_refused(url, options):
    with pytest.raises((ValueError, TypeError), match=r"(?i)url|timeout|api_key|on_error"):
        Bandits(url, **options)


@pytest.mark.parametrize("name", ["max_batch", "interval", "call_timeout", "close_timeout"])
def test_rules_of_reports_are_numbers_that_a_clock_can_wait_for(name):
    for wrong in (-1, INF, float("nan")):
        with pytest.raises(ValueError, match=name):
            ReportRules(**{name: wrong})


def test_proxies_of_the_environment_are_used_only_if_asked(monkeypatch):
    answer = json.dumps(ACTION).encode()
    with slow_server(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(answer) + answer, None) as proxy:
        monkeypatch.setenv("http_proxy", proxy.removeprefix("http://"))
        for name in ("no_proxy", "NO_PROXY"):
            monkeypatch.setenv(name, "[::1]")
        assert Bandits("http://service.invalid").session("s").act(fallback="hat").is_fallback
        with Bandits("http://service.invalid", trust_env=True) as bandits:
            assert bandits.session("s").act().label == "shoes"
        monkeypatch.setenv("http_proxy", "http://[::1")
        with pytest.raises(ValueError, match="proxy"):
            Bandits("http://service.invalid", trust_env=True)
        assert attempts.target_of("http://[::1]:8000", None, 1.0, 1, True, trust_env=True).proxy is None


def test_the_api_key_is_not_printed():
    target = attempts.target_of("http://service", "secret", 1.0, 1, verify=True)

    assert "secret" not in repr(target)


def test_the_password_of_a_proxy_is_sent_and_not_shown():
    url = "http://user:pa%40ss@service/prefix"
    script = Script(httpx.ConnectError("refused"), problem(409, "conflict"), httpx.Response(200, content=b"no"))
    for _ in range(3):
        with pytest.raises(BanditsError) as failed:
            Bandits(url, transport=script, max_retries=0).session("s").view()
        assert "user" not in str(failed.value)

    assert {each.headers["Authorization"] for each in script.requests} == {"Basic dXNlcjpwYUBzcw=="}
    assert {str(each.url) for each in script.requests} == {"http://service/prefix/v1/sessions/s"}


def test_ensure_changes_the_options_that_are_named():
    view = VIEW | {"learner": {"kind": "fixed", "arms": ["a"]}, "floor": 0.0}
    view["expiry"] = {"after_seconds": 60.0, "default_loss": 0.0, "provisional": True}
    view |= {"control": {"share": 0.1}, "guard": {"tolerance": 0.05, "silence": True}}
    exists = problem(409, "session_exists", errors=[{"index": None, "field": "expiry", "message": ""}])
    bandits, script = scripted(exists, httpx.Response(200, json=view))
    expiry = {"after_seconds": 90, "default_loss": 0}
    same = {"floor": 0, "control": {"share": 0.1}, "guard": {"tolerance": 0.05}}
    bandits.sessions.ensure("s", learner=view["learner"], expiry=expiry, **same)

    assert [request.method for request in script.requests] == ["POST", "GET", "PATCH"]
    assert script.requests[-1].url.path == "/v1/sessions/s"
    assert json.loads(script.requests[-1].content) == {"expiry": expiry}
