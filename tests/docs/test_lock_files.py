"""What the lock files of the images pin."""

import re

import pytest
from packaging.requirements import Requirement

from tests.support.compose import DOCKERFILE, ROOT
from tests.support.requirements import PROJECT, needed

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
