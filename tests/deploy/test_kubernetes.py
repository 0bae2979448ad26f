"""Kubernetes manifests, written and rendered: valid by Kubernetes' schemas, with times that fit the service's."""

import subprocess
from typing import Any

import pytest
import yaml

from service import __version__
from service.command_line import read_settings, unknown_variables
from service.server.supervisor import _KILL_MARGIN
from service.settings import Settings
from tests.support.compose import ROOT
from tests.support.programs import program
from tests.support.running import RunningService
from tests.support.waiting import wait_until

kubernetes_validate = pytest.importorskip("kubernetes_validate")

FOLDER = ROOT / "deploy/kubernetes"
OVERLAY = "production"


def read(name: str) -> dict[str, dict[str, Any]]:
    """The resources of the base as they are written, or those of an overlay as kubectl renders them."""
    if name == OVERLAY:
        command = [program("kubectl"), "kustomize", FOLDER / name]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    else:
        named = yaml.safe_load((FOLDER / name / "kustomization.yaml").read_text())["resources"]
        text = "\n---\n".join((FOLDER / name / each).read_text() for each in named)
    return {each["kind"]: each for each in yaml.safe_load_all(text)}


@pytest.fixture(scope="module", params=["base", pytest.param(OVERLAY, marks=pytest.mark.servers("kubectl"))])
def resources(request):
    return read(request.param)


@pytest.fixture
def pod(resources):
    return resources["Deployment"]["spec"]["template"]["spec"]


@pytest.fixture
def container(pod):
    return pod["containers"][0]


@pytest.fixture
def variables(container):
    return {each["name"]: each["value"] for each in container["env"]}


@pytest.mark.parametrize("version", ["1.30", kubernetes_validate.latest_version()])
def test_every_resource_is_valid(resources, version):
    for each in resources.values():
        if not each["apiVersion"].startswith("monitoring.coreos.com/"):
            kubernetes_validate.validate(each, version, strict=True)


def test_a_field_that_is_none_is_found(resources):
    wrong = {**resources["Service"], "spec": {"ports": [{"prot": 80}]}}

    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, kubernetes_validate.latest_version(), strict=True)


def test_every_variable_is_a_setting(variables):
    assert {name.removeprefix("BANDIT_").lower() for name in variables} <= set(Settings.model_fields)


def test_a_stop_has_the_time_it_needs(pod, container, variables):
    drain, grace = (float(variables[f"BANDIT_{what}_SECONDS"]) for what in ("DRAIN", "GRACE"))
    readiness = container["readinessProbe"]

    assert pod["terminationGracePeriodSeconds"] > drain + grace + _KILL_MARGIN
    assert drain > readiness["periodSeconds"] * readiness["failureThreshold"] + readiness["timeoutSeconds"]


def test_only_a_process_that_does_not_answer_is_restarted(container):
    assert container["livenessProbe"]["httpGet"]["path"] == "/livez"
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"


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
def test_a_pod_starts_beside_its_service_with_the_variables_of_both(
    tmp_path, monkeypatch, resources, pod, container, variables, address
):
    """A pod of a manifest without ``enableServiceLinks: false`` gets them; so do those of a Redis beside it."""
    ports = [{"port": 6379}, {"port": 53, "protocol": "UDP"}]
    redis = {"metadata": {"name": "bandit-redis"}, "spec": {"ports": ports}}
    environment = links(resources["Service"], address) | links(redis, address)
    secret = {
        "store-url": "memory://",
        "api-keys": '[{"name": "a", "role": "admin", "key": "0123456789abcdef"}]',
        "token-keys": "0123456789abcdef" * 2,
    }
    (volume,) = (each["secret"] for each in pod["volumes"] if each["name"] == "secrets")
    for item in volume["items"]:
        (tmp_path / item["path"]).write_text(secret.pop(item["key"]))
    (mount,) = (each["mountPath"] for each in container["volumeMounts"] if each["name"] == "secrets")
    environment |= {name: value.replace(mount, str(tmp_path)) for name, value in variables.items()}
    for name, value in environment.items():
        monkeypatch.setenv(name, value)

    assert secret == {}
    assert read_settings([]).port == container["ports"][0]["containerPort"] == 8000
    unknown = unknown_variables(environment | {"BANDIT_REDS_PORT": "6379"})
    assert unknown == ["BANDIT_PORT with ://", "BANDIT_REDS_PORT"]
    with RunningService(tmp_path, environment=environment) as service:
        service.wait_ready()
        assert "not settings of this service: BANDIT_PORT with ://" in service.messages()
        service.process.terminate()
        wait_until(lambda: "not ready from now on" in service.text())  # The next signal ends its drain.
    assert pod["enableServiceLinks"] is False


def test_three_replicas_can_be_replaced_on_three_nodes(resources, pod):
    """One more than they are while a build is replaced; the spread counts only those of its own build."""
    spread = pod["topologySpreadConstraints"]
    labels = resources["Deployment"]["spec"]["template"]["metadata"]["labels"]
    strict = {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "nodeTaintsPolicy": "Honor"}

    assert spread[0].items() >= {**strict, "topologyKey": "kubernetes.io/hostname"}.items()
    assert spread[1]["whenUnsatisfiable"] == "ScheduleAnyway"
    assert [each["matchLabelKeys"] for each in spread] == [["pod-template-hash"]] * 2
    assert "affinity" not in pod
    selectors = [
        *(each["labelSelector"]["matchLabels"] for each in spread),
        resources["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"],
        resources["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"],
        resources["Deployment"]["spec"]["selector"]["matchLabels"],
        resources["Service"]["spec"]["selector"],
    ]
    assert selectors == [labels] * 6
    assert resources["PodDisruptionBudget"]["spec"]["maxUnavailable"] == 1
    assert resources["Deployment"]["spec"]["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}


def test_the_image_has_a_version_and_pods_reach_what_they_need(resources, container):
    assert container["image"].rpartition(":")[2] == __version__
    (ingress,), (egress,) = (resources["NetworkPolicy"]["spec"][way] for way in ("ingress", "egress"))
    assert ingress["ports"][0]["port"] == container["ports"][0]["name"]
    assert {53, 6379, 26379} <= {each["port"] for each in egress["ports"]}


def test_it_is_confined_and_bounded(pod, container):
    assert container["securityContext"]["readOnlyRootFilesystem"]
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert "memory" in container["resources"]["limits"]
    assert pod["securityContext"]["runAsNonRoot"]


@pytest.mark.servers("kubectl")
def test_the_overlay_is_scaled_by_processor_time_and_scraped_with_a_key_of_the_secret():
    found = read(OVERLAY)
    scaler, (endpoint,) = found["HorizontalPodAutoscaler"]["spec"], found["ServiceMonitor"]["spec"]["endpoints"]
    (metric,) = scaler["metrics"]
    rules = yaml.safe_load((ROOT / "deploy/monitoring/alerts.yml").read_text())["groups"][0]["rules"]

    assert "replicas" not in found["Deployment"]["spec"]
    assert scaler["minReplicas"] == read("base")["Deployment"]["spec"]["replicas"] == 3
    assert (metric["resource"]["name"], metric["resource"]["target"]["type"]) == ("cpu", "AverageValue")
    assert scaler["scaleTargetRef"]["name"] == found["Deployment"]["metadata"]["name"]
    assert endpoint["port"] == found["Service"]["spec"]["ports"][0]["name"]
    assert endpoint["authorization"]["credentials"] == {"name": "bandit", "key": "metrics-key"}
    assert endpoint["relabelings"] == [{"targetLabel": "job", "replacement": "delayed-bandits"}]
    assert 'up{job="delayed-bandits"} == 0' in {each["expr"] for each in rules}
    assert {each["metadata"].get("namespace") for each in found.values()} == {"bandit", None}
    assert found["ServiceMonitor"]["spec"]["selector"]["matchLabels"] == found["Service"]["metadata"]["labels"]
