"""What docs/nginx.conf says: times and sizes that fit the service, and the service's own problems."""

from __future__ import annotations

import json
import re

from service.api.problems import problem_fields
from service.errors import ServiceError
from service.settings import Settings
from tests.support.compose import COMPOSE
from tests.support.nginx import CONFIG


def seconds(name: str) -> int:
    return int(re.findall(rf"{name} (\d+)s;", CONFIG)[0])


def test_it_gives_up_idle_connections_before_the_service_does():
    assert seconds("keepalive_timeout") <= Settings.model_fields["keep_alive_seconds"].default - 10


def test_it_lets_through_what_the_service_reads():
    assert f"client_max_body_size {Settings.model_fields['max_body_bytes'].default};" in CONFIG


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
