"""What the wheel holds and says of itself: one name, its needs, and its long description."""

import zipfile
from email import message_from_bytes
from importlib.metadata import Distribution
from importlib.util import module_from_spec, spec_from_file_location

import pytest
from packaging.requirements import Requirement

from service import __version__
from service.__main__ import SERVER_PACKAGES
from tests.packaging.conftest import ROOT
from tests.support.compose import PROJECT


def test_the_wheel_installs_one_name(wheel):
    names = zipfile.ZipFile(wheel).namelist()

    assert {name.split("/")[0] for name in names} == {
        "delayed_bandits",
        f"delayed_bandits-{__version__}.dist-info",
    }
    files = ("py.typed", "store/redis/lua/commit.lua", "dashboard/index.html", "dashboard/assets/js/app.js")
    assert {f"delayed_bandits/{file}" for file in files} <= set(names)


def test_the_wheel_says_what_it_is_and_needs(wheel):
    with zipfile.ZipFile(wheel) as archive:
        metadata = message_from_bytes(archive.read(f"delayed_bandits-{__version__}.dist-info/METADATA"))
    needed = [Requirement(line) for line in metadata.get_all("Requires-Dist")]

    assert metadata["Version"] == __version__
    assert [each.name for each in needed if each.marker is None] == ["httpx"]
    assert {"server", "dashboard", "embedded", "otel"} <= set(metadata.get_all("Provides-Extra"))
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert metadata.get_payload(decode=True).decode().strip() == (ROOT / "README.md").read_text().strip()


def test_every_dependency_has_a_lowest_version_and_a_ceiling():
    requirements = [
        *PROJECT["dependencies"],
        *(one for each in PROJECT["optional-dependencies"].values() for one in each),
    ]

    for requirement in map(Requirement, requirements):
        operators = {each.operator for each in requirement.specifier}
        assert operators == (set() if requirement.name == PROJECT["name"] else {">=", "<"}), requirement


def test_what_the_command_looks_for_is_what_the_extra_installs():
    extra = {Requirement(one).name.replace("-", "_") for one in PROJECT["optional-dependencies"]["server"]}

    assert set(SERVER_PACKAGES) == extra


@pytest.fixture(scope="module")
def hatch_build():
    """The build's own hook, which is no module of a package."""
    spec = spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_links_of_the_long_description_come_from_one_value(hatch_build):
    text = "[a](docs/a.md#b), [c](#c), [d](https://d.example/e), ![f](docs/f.png)"
    links = "https://git.example/us/{view}/v{version}/"

    assert hatch_build.absolute_links(text, "", "1") == text
    assert hatch_build.absolute_links(text, links, "1") == (
        "[a](https://git.example/us/blob/v1/docs/a.md#b), [c](#c), [d](https://d.example/e), "
        "![f](https://git.example/us/raw/v1/docs/f.png)"
    )


def test_the_metadata_is_that_of_the_installed_wheel(bare):
    (info,) = bare.parent.glob("lib/python*/site-packages/delayed_bandits-*.dist-info")
    scripts = Distribution.at(info).entry_points.select(group="console_scripts")

    assert [(each.name, each.value) for each in scripts] == [("delayed-bandits", "delayed_bandits.__main__:run")]
