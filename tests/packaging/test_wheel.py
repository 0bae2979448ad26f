"""The wheel: what it holds and says of itself, and that it serves, beside others and with what it imports."""

import json
import subprocess
import sys
import zipfile
from email import message_from_bytes
from importlib.metadata import Distribution
from importlib.util import module_from_spec, spec_from_file_location

import pytest
from packaging.requirements import Requirement

from service import __version__, install
from service.__main__ import NOT_INSTALLED, SERVER_PACKAGES
from tests.packaging.conftest import ROOT, run
from tests.support.compose import PROJECT
from tests.support.running import RunningService, create


def test_the_wheel_installs_one_name(wheel):
    names = zipfile.ZipFile(wheel).namelist()

    assert {name.split("/")[0] for name in names} == {"delayed_bandits", f"delayed_bandits-{__version__}.dist-info"}
    files = ("py.typed", "store/redis/lua/commit.lua", "dashboard/index.html", "dashboard/assets/js/app.js")
    assert {f"delayed_bandits/{file}" for file in files} <= set(names)


def test_the_wheel_names_the_commit_if_it_has_its_files(wheel, hatch_build):
    commit = hatch_build.commit_of(ROOT)
    archive = zipfile.ZipFile(wheel)

    assert ("delayed_bandits/REVISION" in archive.namelist()) == bool(commit)
    assert not commit or archive.read("delayed_bandits/REVISION").decode().strip() == commit


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
    optional = PROJECT["optional-dependencies"].values()
    requirements = [*PROJECT["dependencies"], *(one for each in optional for one in each)]

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


def test_a_source_is_named_once_the_project_says_where_it_is(hatch_build):
    metadata = {"version": "1"}
    for links, urls in (
        ("", {}),
        ("https://git.example/us/{view}/v{version}/", {"Source": "https://git.example/us"}),
    ):
        hatch_build.LongDescription(str(ROOT), {"links": links}).update(metadata)
        assert metadata["urls"] == urls


def test_the_name_on_the_index_is_the_same_wherever_it_stands():
    extras = PROJECT["optional-dependencies"]
    needed = [Requirement(one) for each in extras.values() for one in each]
    own = {each.name for each in needed if extras.keys() & each.extras}

    assert own == {PROJECT["name"]}
    assert f"pip install '{PROJECT['name']}[server]'" in install("server")


@pytest.mark.slow
def test_the_metadata_is_that_of_the_installed_wheel(bare):
    (info,) = bare.parent.glob("lib/python*/site-packages/delayed_bandits-*.dist-info")
    scripts = Distribution.at(info).entry_points.select(group="console_scripts")

    assert [(each.name, each.value) for each in scripts] == [("delayed-bandits", "delayed_bandits.__main__:run")]


def imported_by(code):
    """The names of the modules that a new process has after some code."""
    code = f"import sys; {code}; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return set(run.stdout.split())


def test_the_application_does_not_import_what_only_some_services_need():
    imported = imported_by("import service.app")

    assert "fastapi" in imported
    assert not imported & {"redis", "opentelemetry.sdk", "httpx", "service.command_line", "rich"}
    assert "pydantic.v1" not in imported  # FastAPI imports it where it describes a route.


def test_the_supervisor_imports_little():
    """It reads settings and starts processes; a plain store URL is checked without the store."""
    imported = imported_by(
        "import service.server.supervisor; from service.store import check_url; "
        "check_url('redis://user:password@host:6379/0')"
    )

    assert "pydantic" in imported
    assert not imported & {"redis", "fastapi", "numpy", "prometheus_client"}


def test_it_serves_beside_a_foreign_service(scripts, elsewhere, tmp_path):
    command = (str(scripts / "delayed-bandits"), "serve")
    with RunningService(tmp_path, command=command, cwd=elsewhere, environment={"PYTHONPATH": ""}) as service:
        with service.client() as client:
            answer = client.post(f"/v1/sessions/{create(client)}/act")
            assert service.children("delayed_bandits.server.worker")

        assert answer.status_code == 200
        assert answer.json()["slot"] == 1
        assert service.stop() == 0
        loggers = {json.loads(line)["logger"] for line in service.text().splitlines()}

    assert "service.server.supervisor" in loggers
    assert not {name for name in loggers if name.startswith("delayed_bandits")}


@pytest.mark.parametrize("words", [["--version"], ["serve", "--version"]])
def test_it_tells_its_version_without_any_dependency(bare, elsewhere, words):
    told = run(bare / "delayed-bandits", *words, cwd=elsewhere)

    assert (told.returncode, told.stdout) == (0, f"delayed-bandits {__version__}\n")


def test_it_lists_its_commands_without_any_dependency(bare, elsewhere):
    told = run(bare / "delayed-bandits", "--help", cwd=elsewhere)

    assert (told.returncode, told.stderr) == (0, "")
    assert told.stdout.startswith("usage: delayed-bandits [COMMAND] [FLAGS]")


def test_without_the_extra_it_says_which_one_to_install(bare, elsewhere):
    ended = run(bare / "delayed-bandits", "serve", cwd=elsewhere)

    assert ended.returncode == NOT_INSTALLED
    assert len(ended.stderr.splitlines()) == 1
    assert "pip install 'delayed-bandits[embedded]'" in ended.stderr
    assert "fastapi" in ended.stderr


@pytest.mark.parametrize(
    ("word", "says"),
    [("sessions", "pip install 'delayed-bandits[cli]'"), ("sesions", "there is no command sesions")],
)
def test_a_command_that_is_not_there_is_one_line(bare, elsewhere, word, says):
    ended = run(bare / "delayed-bandits", word, "list", cwd=elsewhere)

    assert (ended.returncode, len(ended.stderr.splitlines())) == (NOT_INSTALLED, 1)
    assert says in ended.stderr


USER = """
from typing import assert_type

from delayed_bandits import AsyncBandits, Bandits
from delayed_bandits.client import Action, ReportCounts, SessionView

def visit() -> str | int:
    with Bandits("http://localhost", api_key="k", timeout=2.0, max_retries=2) as bandits:
        shop = bandits.sessions.ensure("shop", learner={"kind": "fixed", "arms": ["a"]}, loss_range=[1, 0])
        action = shop.act(eligible=["a"], fallback="a")
        assert_type(action, Action)
        assert_type(shop.report(action, reward=1), bool)
        assert_type(shop.view(), SessionView)
        assert_type(bandits.reports, ReportCounts)
        assert_type([view.slot for view in bandits.sessions.list()], list[int])
        shop.act(eligable=["a"])  # type: ignore[call-arg]
        shop.report(action, los=1)  # type: ignore[call-arg]
        return action.choice

async def awaited() -> None:
    async with AsyncBandits("http://localhost") as bandits:
        assert_type(await bandits.session("shop").act(fallback="a"), Action)
        assert_type([view.slot async for view in bandits.sessions.list()], list[int])
"""


@pytest.mark.slow
def test_programs_that_use_the_client_have_their_types_checked(scripts, elsewhere):
    pytest.importorskip("mypy")
    (elsewhere / "user.py").write_text(USER)
    command = [sys.executable, "-m", "mypy", "--strict", "--python-executable", scripts / "python", "user.py"]
    checked = run(*command, "--cache-dir", elsewhere / "cache", cwd=elsewhere)

    assert (checked.returncode, checked.stdout) == (0, "Success: no issues found in 1 source file\n")


@pytest.mark.slow
def test_the_client_imports_nothing_of_the_server(scripts, elsewhere):
    code = "import sys; from delayed_bandits import AsyncBandits, Bandits; print(*sys.modules)"
    ended = run(scripts / "python", "-c", code, cwd=elsewhere)

    assert ended.returncode == 0, ended.stderr
    assert not {name.split(".")[0] for name in ended.stdout.split()} & set(SERVER_PACKAGES)


@pytest.mark.slow
def test_help_and_bad_flags_are_as_in_a_checkout(scripts, elsewhere):
    told = run(scripts / "delayed-bandits", "serve", "--help", cwd=elsewhere)
    refused = run(scripts / "delayed-bandits", "serve", "--no-such-flag", cwd=elsewhere)

    assert told.returncode == 0
    assert told.stdout.startswith("usage: delayed-bandits serve")
    says = "delayed-bandits: there is no flag --no-such-flag: see --help\n"
    assert (refused.returncode, refused.stderr) == (2, says)
