"""What docs/nginx.conf says: times and sizes that fit the service, and the service's own problems."""

import json
import re
from collections.abc import Callable

from service.api.problems import problem_fields
from service.errors import ServiceError
from service.settings import Settings
from tests.support.compose import COMPOSE
from tests.support.nginx import CONFIG


def seconds(name: str) -> list[int]:
    return [int(each) for each in re.findall(rf"{name} (\d+)s;", CONFIG)]


def longest_call(of: Callable[[str], object]) -> float:
    """Seconds after which the service has answered, whatever its store does: see docs/promises.md."""
    return float(str(of("store_budget_seconds"))) + 2 * float(str(of("store_timeout_seconds")))


def in_compose(name: str) -> str:
    """The default that docker-compose.yml sets."""
    return COMPOSE["services"]["service"]["environment"][f"BANDIT_{name.upper()}"].rpartition(":-")[2].rstrip("}")


def test_it_waits_longer_than_the_service_takes():
    short, long, *_ = sorted(seconds("proxy_read_timeout"))

    assert longest_call(in_compose) < short
    assert longest_call(lambda name: Settings.model_fields[name].default) < long


def test_a_frozen_replica_is_left_out_within_two_seconds():
    assert min(seconds("proxy_read_timeout")) <= 2
    assert seconds("proxy_connect_timeout") == [1]
    assert "max_fails=1 fail_timeout=10s;" in CONFIG


def test_it_gives_up_idle_connections_before_the_service_does():
    assert seconds("keepalive_timeout")[0] <= Settings.model_fields["keep_alive_seconds"].default - 10


def test_it_lets_through_what_the_service_reads():
    assert f"client_max_body_size {Settings.model_fields['max_body_bytes'].default};" in CONFIG
    assert f"client_max_body_size {Settings.model_fields['max_import_bytes'].default};" in CONFIG


def test_it_is_what_the_compose_profile_runs():
    nginx = COMPOSE["services"]["nginx"]

    assert nginx["profiles"] == ["nginx"]
    assert nginx["volumes"] == ["./docs/nginx.conf:/etc/nginx/nginx.conf:ro"]
    assert nginx["depends_on"]["service"] == {"condition": "service_healthy", "restart": True}
    assert "listen 8080;" in CONFIG


def test_every_problem_of_nginx_is_the_services_own():
    errors = {error.code: error for error in ServiceError.__subclasses__()}
    problems = re.findall(r"return (\d+) '(.+)';", CONFIG)

    assert len(problems) == CONFIG.count("return ") == 6
    for status, text in problems:
        body = json.loads(text.replace("\\'", "'"))
        assert body == problem_fields(errors[body["code"]](body["detail"]))
        assert body["status"] == int(status)
