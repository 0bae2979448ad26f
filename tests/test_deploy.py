"""What the container files promise; building and running them needs an engine and is no unit test."""

import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parent.parent
DOCKERFILE = (ROOT / "Dockerfile").read_text()
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES = COMPOSE["services"]


def test_only_the_service_is_published_and_only_on_loopback():
    assert {name: service["ports"] for name, service in SERVICES.items() if "ports" in service} == {
        "service": ["127.0.0.1:8000:8000"]
    }


@pytest.mark.parametrize("name", SERVICES)
def test_every_container_is_confined(name):
    service = SERVICES[name]

    assert service["read_only"]
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["logging"]["options"] == {"max-size": "10m", "max-file": "3"}


def test_redis_keeps_every_acknowledged_write():
    command = SERVICES["redis"]["command"]
    options = dict(zip(command[1::2], command[2::2], strict=True))

    assert options["--appendonly"] == "yes"
    assert options["--appendfsync"] == "always"
    assert options["--maxmemory-policy"] == "noeviction"
    assert SERVICES["redis"]["volumes"] == ["redis-data:/data"]
    assert "redis-data" in COMPOSE["volumes"]


def test_redis_is_reached_only_from_the_inner_network():
    assert SERVICES["redis"]["networks"] == ["back"]
    assert COMPOSE["networks"]["back"]["internal"]


def test_the_service_waits_for_a_healthy_redis_and_the_load_test_for_a_healthy_service():
    assert SERVICES["service"]["depends_on"]["redis"]["condition"] == "service_healthy"
    assert SERVICES["loadtest"]["depends_on"]["service"]["condition"] == "service_healthy"
    assert {name for name, service in SERVICES.items() if "healthcheck" in service} == {"service", "redis"}


def test_no_password_is_written_down():
    text = (ROOT / "docker-compose.yml").read_text()

    assert set(re.findall(r"\$\{REDIS_PASSWORD[^}]*\}", text)) == {"${REDIS_PASSWORD:-}"}


def test_the_image_runs_as_nobody_in_particular():
    assert re.findall(r"^USER (.*)$", DOCKERFILE, re.M) == ["10001:10001", "10001:10001"]


def test_the_image_gets_signals_and_checks_itself_without_curl():
    assert 'ENTRYPOINT ["python", "-m", "service"]' in DOCKERFILE
    assert "STOPSIGNAL SIGTERM" in DOCKERFILE
    assert "HEALTHCHECK" in DOCKERFILE
    assert "curl" not in DOCKERFILE


def test_the_image_is_built_from_two_base_images_and_no_named_host():
    assert set(re.findall(r"^FROM (\S+)", DOCKERFILE, re.M)) == {"python:3.11-slim", "build", "base"}
    assert set(re.findall(r"--from=(\S+)", DOCKERFILE)) == {"build", "build-loadtest"}
    assert "# syntax" not in DOCKERFILE
    assert set(re.findall(r"https?://([^/:]+)", DOCKERFILE)) == {"127.0.0.1"}


def test_the_build_sees_only_what_it_needs():
    lines = (ROOT / ".dockerignore").read_text().split()

    assert lines[0] == "*"
    assert {line for line in lines if line.startswith("!")} == {
        "!pyproject.toml",
        "!README.md",
        "!service",
        "!loadtest",
    }
