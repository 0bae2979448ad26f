"""The Kubernetes manifest: valid by the schemas of Kubernetes, and its times fit the service's."""

from typing import Any

import pytest
import yaml

from service import __version__
from service.command_line import read_settings, unknown_variables
from service.server.supervisor import _KILL_MARGIN
from service.settings import Settings
from tests.support.compose import ROOT
from tests.support.running import RunningService

kubernetes_validate = pytest.importorskip("kubernetes_validate")

TEXT = (ROOT / "deploy/kubernetes/bandit.yaml").read_text()
RESOURCES: dict[str, dict[str, Any]] = {each["kind"]: each for each in yaml.safe_load_all(TEXT)}
POD = RESOURCES["Deployment"]["spec"]["template"]["spec"]
CONTAINER = POD["containers"][0]
ENVIRONMENT = {each["name"]: each["value"] for each in CONTAINER["env"]}


@pytest.mark.parametrize("kind", RESOURCES)
@pytest.mark.parametrize("version", ["1.30", kubernetes_validate.latest_version()])
def test_every_resource_is_valid(kind, version):
    kubernetes_validate.validate(RESOURCES[kind], version, strict=True)


def test_a_field_that_is_none_is_found():
    wrong = {**RESOURCES["Service"], "spec": {"ports": [{"prot": 80}]}}

    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, kubernetes_validate.latest_version(), strict=True)


def test_every_variable_is_a_setting():
    assert {name.removeprefix("BANDIT_").lower() for name in ENVIRONMENT} <= set(Settings.model_fields)


def test_a_stop_has_the_time_it_needs():
    drain, grace = (float(ENVIRONMENT[f"BANDIT_{what}_SECONDS"]) for what in ("DRAIN", "GRACE"))
    readiness = CONTAINER["readinessProbe"]

    assert POD["terminationGracePeriodSeconds"] > drain + grace + _KILL_MARGIN
    assert drain > readiness["periodSeconds"] * readiness["failureThreshold"] + readiness["timeoutSeconds"]


def test_only_a_process_that_does_not_answer_is_restarted():
    assert CONTAINER["livenessProbe"]["httpGet"]["path"] == "/livez"
    assert CONTAINER["readinessProbe"]["httpGet"]["path"] == "/readyz"


def links(service: dict[str, Any], address: str) -> dict[str, str]:
    """The variables that Kubernetes makes of a Service, for every pod that does not refuse them."""
    name = service["metadata"]["name"].upper().replace("-", "_")
    made = {f"{name}_SERVICE_HOST": address}
    for number, each in enumerate(service["spec"]["ports"]):
        port, protocol = str(each["port"]), each.get("protocol", "TCP").lower()
        url, before = f"{protocol}://{address}:{port}", f"{name}_PORT_{port}_{protocol.upper()}"
        made |= {} if number else {f"{name}_SERVICE_PORT": port, f"{name}_PORT": url}
        made |= {f"{name}_SERVICE_PORT_{each['name'].upper()}": port} if "name" in each else {}
        made |= {before: url, f"{before}_PROTO": protocol, f"{before}_PORT": port, f"{before}_ADDR": address}
    return made


@pytest.mark.processes
@pytest.mark.usefixtures("no_settings_from_outside")
@pytest.mark.parametrize("address", ["10.96.12.7", "[fd00::7]"])
def test_a_pod_starts_beside_its_service_with_the_variables_of_both(tmp_path, monkeypatch, address):
    """A pod of a manifest without ``enableServiceLinks: false`` gets them; so do those of a Redis beside it."""
    redis = {
        "metadata": {"name": "bandit-redis"},
        "spec": {"ports": [{"port": 6379}, {"port": 53, "protocol": "UDP"}]},
    }
    environment = links(RESOURCES["Service"], address) | links(redis, address)
    (tmp_path / "store-url").write_text("memory://")
    (tmp_path / "api-keys").write_text('[{"name": "a", "role": "admin", "key": "0123456789abcdef"}]')
    (mount,) = (each["mountPath"] for each in CONTAINER["volumeMounts"] if each["name"] == "secrets")
    environment |= {name: value.replace(mount, str(tmp_path)) for name, value in ENVIRONMENT.items()}
    for name, value in environment.items():
        monkeypatch.setenv(name, value)

    assert read_settings([]).port == CONTAINER["ports"][0]["containerPort"] == 8000
    assert unknown_variables(environment | {"BANDIT_REDS_PORT": "6379"}) == [
        "BANDIT_PORT with ://",
        "BANDIT_REDS_PORT",
    ]
    with RunningService(tmp_path, environment=environment) as service:
        service.wait_ready()
        assert "not settings of this service: BANDIT_PORT with ://" in service.messages()
    assert POD["enableServiceLinks"] is False


def test_replicas_are_apart_and_are_replaced_one_at_a_time_on_as_many_nodes():
    labels = RESOURCES["Deployment"]["spec"]["template"]["metadata"]["labels"]
    (apart,) = POD["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]

    assert apart["topologyKey"] == "kubernetes.io/hostname"
    selectors = [
        apart["labelSelector"]["matchLabels"],
        RESOURCES["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"],
        RESOURCES["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"],
        RESOURCES["Deployment"]["spec"]["selector"]["matchLabels"],
        RESOURCES["Service"]["spec"]["selector"],
    ]
    assert selectors == [labels] * 5
    assert RESOURCES["PodDisruptionBudget"]["spec"]["maxUnavailable"] == 1
    assert RESOURCES["Deployment"]["spec"]["strategy"]["rollingUpdate"] == {"maxSurge": 0, "maxUnavailable": 1}


def test_the_image_has_a_version_and_pods_reach_what_they_need():
    assert CONTAINER["image"].rpartition(":")[2] == __version__
    (ingress,), (egress,) = (RESOURCES["NetworkPolicy"]["spec"][way] for way in ("ingress", "egress"))
    assert ingress["ports"][0]["port"] == CONTAINER["ports"][0]["name"]
    assert {53, 6379, 26379} <= {each["port"] for each in egress["ports"]}


def test_it_is_confined_and_bounded():
    assert CONTAINER["securityContext"]["readOnlyRootFilesystem"]
    assert CONTAINER["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert "memory" in CONTAINER["resources"]["limits"]
    assert POD["securityContext"]["runAsNonRoot"]
