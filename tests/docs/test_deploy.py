"""What the container files and their lock files promise; building and running them is no unit test."""

import json
import os
import re
import subprocess

import pytest
import yaml
from packaging.requirements import Requirement

from service.server.supervisor import _KILL_MARGIN
from service.settings import Settings
from tests.support.compose import COMPOSE, DOCKERFILE, PROJECT, ROOT, needed
from tests.support.programs import program

SERVICES = COMPOSE["services"]


def test_the_first_command_of_the_readme_brings_the_charts_of_the_dashboard():
    assert "plotly" in {each.name for each in needed(["embedded"])}


def test_only_the_service_and_its_balancer_are_published_and_only_on_loopback():
    assert {name: service["ports"] for name, service in SERVICES.items() if "ports" in service} == {
        "service": ["127.0.0.1:${SERVICE_PORT:-8000}:8000"],
        "nginx": ["127.0.0.1:${NGINX_PORT:-8080}:8080"],
    }


def test_a_plain_up_starts_the_service_and_its_store():
    assert {name for name, service in SERVICES.items() if "profiles" not in service} == {"service", "redis"}


@pytest.mark.parametrize("name", SERVICES)
def test_every_container_is_confined(name):
    service = SERVICES[name]

    assert service["read_only"]
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["logging"]["options"] == {"max-size": "10m", "max-file": "3"}


def test_redis_keeps_every_acknowledged_write():
    command = SERVICES["redis"]["command"]

    assert "--appendonly yes" in command
    assert "--appendfsync always" in command
    assert "--maxmemory-policy noeviction" in command
    assert SERVICES["redis"]["volumes"] == ["redis-data:/data"]
    assert "redis-data" in COMPOSE["volumes"]


def size(text: str) -> int:
    """Bytes of a default such as ``${REDIS_MEMORY:-1280m}``."""
    number, unit = re.search(r":-(\d+)([mg])b?\}", text).groups()
    return int(number) << {"m": 20, "g": 30}[unit]


def test_redis_refuses_writes_before_its_container_is_full():
    redis = SERVICES["redis"]
    (largest,) = re.findall(r"--maxmemory (\S+)", redis["command"])

    assert size(redis["mem_limit"]) >= 2 * size(largest) + (256 << 20)
    assert size(SERVICES["service"]["mem_limit"]) >= 1 << 30


def test_every_variable_of_env_reaches_the_service():
    service = SERVICES["service"]
    fixed = {name for name, value in service["environment"].items() if "${" not in str(value)}

    assert service["env_file"] == [{"path": ".env", "required": False}]
    assert fixed == {"BANDIT_HOST", "BANDIT_PORT"}
    assert {name.removeprefix("BANDIT_").lower() for name in service["environment"]} <= set(Settings.model_fields)


def test_a_stop_has_the_time_it_needs():
    drain = float(SERVICES["service"]["environment"]["BANDIT_DRAIN_SECONDS"].rpartition(":-")[2].rstrip("}"))
    needed = drain + float(Settings.model_fields["grace_seconds"].default) + _KILL_MARGIN

    assert needed < int(SERVICES["service"]["stop_grace_period"].rstrip("s"))


@pytest.mark.servers("systemd-analyze")
def test_the_unit_may_do_little_beside_what_it_needs():
    unit = ROOT / "deploy/systemd/bandit@.service"
    judge = [program("systemd-analyze"), "security", "--offline=true", "--threshold=40", unit]
    judged = subprocess.run(judge, capture_output=True, text=True, check=False)

    assert judged.returncode == 0, judged.stdout
    assert "RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX\n" in unit.read_text()


def test_no_container_leaves_an_anonymous_volume():
    assert "VOLUME" not in DOCKERFILE


def test_secrets_are_files_of_the_containers_that_need_them():
    secrets = yaml.safe_load((ROOT / "deploy/compose/secrets.yml").read_text())
    services = secrets["services"]
    environment = services["service"]["environment"]

    assert {name.removeprefix("BANDIT_").lower() for name in environment} <= set(Settings.model_fields)
    assert set(services["service"]["secrets"]) | set(services["redis"]["secrets"]) == set(secrets["secrets"])
    shipped = re.sub(r" --user .*", "", SERVICES["redis"]["command"])
    assert services["redis"]["command"].startswith(shipped)


def test_made_secrets_have_the_users_of_compose_with_a_password(tmp_path):
    for name in ("chmod", "dirname", "mkdir", "python3"):
        program(name)
    folder = tmp_path / "secrets"
    made = subprocess.run(
        [program("sh"), ROOT / "deploy/compose/make-secrets.sh"],
        env={"PATH": os.environ["PATH"], "SECRETS": str(folder)},
        capture_output=True,
        text=True,
        check=True,
    )
    password = (folder / "store_password").read_text().strip()
    users = (folder / "redis.acl").read_text().splitlines()

    assert [line.split()[1] for line in users] == ["default", "health", "bandit"]
    assert users[2].startswith(f"user bandit on >{password} resetkeys ~bandit:* ")
    assert " ".join(SERVICES["redis"]["command"].split()).endswith(users[2].partition("resetchannels ")[2])
    key, reader = json.loads((folder / "api_keys.json").read_text())
    assert key["key"] in made.stdout
    assert (reader["role"], reader["key"]) == ("reader", (folder / "metrics_key").read_text().strip())


def test_prometheus_is_confined_and_finds_each_container_as_the_alerts_expect():
    found = yaml.safe_load((ROOT / "deploy/compose/monitoring.yml").read_text())
    prometheus, shipped = found["services"]["prometheus"], ROOT / "deploy/monitoring/prometheus.yml"
    (job,) = yaml.safe_load((shipped.parent / "containers.yml").read_text())["scrape_configs"]

    assert (prometheus["read_only"], prometheus["cap_drop"]) == (True, ["ALL"])
    assert prometheus["ports"] == ["127.0.0.1:${PROMETHEUS_PORT:-9090}:9090"]
    assert job["job_name"] == yaml.safe_load(shipped.read_text())["scrape_configs"][0]["job_name"]
    assert job["authorization"] == {"credentials_file": "/run/secrets/metrics_key"}


def test_redis_is_reached_only_from_the_inner_network():
    assert SERVICES["redis"]["networks"] == ["back"]
    assert COMPOSE["networks"]["back"]["internal"]


def test_the_service_waits_for_a_healthy_redis_and_the_load_test_for_a_healthy_service():
    assert SERVICES["service"]["depends_on"]["redis"]["condition"] == "service_healthy"
    assert SERVICES["loadtest"]["depends_on"]["service"]["condition"] == "service_healthy"
    assert {name for name, service in SERVICES.items() if "healthcheck" in service} == {"service", "redis", "nginx"}


def test_no_password_is_written_down():
    text = (ROOT / "docker-compose.yml").read_text()

    assert set(re.findall(r"\$\{REDIS_PASSWORD(.*?)\}", text)) == {":+>", ":-nopass", ":-none"}
    keys = set(re.findall(r"^ +\w+_API_KEYS?: (.*)", text, re.M))
    assert keys == {"${BANDIT_API_KEYS:-}", "${LOADTEST_API_KEY:-}"}


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
    assert {line for line in lines if line.startswith("!")} == {"!requirements*.lock", "!service", "!loadtest"}


IMAGE = ["embedded", "otel"]


LOCKS = {"requirements.lock": IMAGE, "requirements-loadtest.lock": [*IMAGE, "loadtest"]}


def read_lock(name: str) -> list[tuple[Requirement, list[str]]]:
    """The pinned requirements of a lock file, each with its hashes."""
    text = re.sub(r"^\s*#.*$", "", (ROOT / name).read_text(), flags=re.M).replace("\\\n", " ")
    lines = [line.split("--hash=") for line in text.splitlines() if line.strip()]
    return [(Requirement(pin), [each.strip() for each in hashes]) for pin, *hashes in lines]


@pytest.mark.parametrize("name", LOCKS)
def test_every_locked_package_is_pinned_by_hash_and_comes_from_no_named_host(name):
    for pin, hashes in read_lock(name):
        assert [each.operator for each in pin.specifier] == ["=="], pin
        assert hashes
        assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", each) for each in hashes), pin
    assert "://" not in (ROOT / name).read_text()
    assert "index-url" not in (ROOT / name).read_text()


@pytest.mark.parametrize(("name", "extras"), LOCKS.items())
def test_the_lock_has_a_version_of_each_dependency_that_the_project_allows(name, extras):
    wanted = {*map(Requirement, PROJECT["dependencies"]), *needed(extras)}
    pins = {}
    for pin, _ in read_lock(name):
        pins.setdefault(pin.name, []).append(next(iter(pin.specifier)).version)

    for requirement in wanted:
        assert pins[requirement.name]
        assert all(requirement.specifier.contains(version) for version in pins[requirement.name]), requirement


def test_both_images_run_the_same_versions():
    assert {str(pin) for pin, _ in read_lock("requirements.lock")} <= {
        str(pin) for pin, _ in read_lock("requirements-loadtest.lock")
    }
    installs = re.findall(r"pip .* install .* -r (\S+)", DOCKERFILE)
    assert installs == list(LOCKS)
    assert DOCKERFILE.count("--require-hashes") == len(installs)
