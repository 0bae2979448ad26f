"""Every code block of every page is run or parsed, by its language.

``sh`` blocks that call the service run against a real one, block after block in one shell, and the block after each
holds what it prints. Of other ``sh`` blocks the commands and options are checked. ``json`` blocks are parsed, and
``promql`` blocks by promtool where it is installed. ``python`` blocks of a page run in one program, and ``text`` is
output; ``mermaid`` diagrams are looked at by hand.
"""

import importlib.util
import json
import math
import os
import re
import shlex
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
import typer

from loadtest.commands import app
from service.__main__ import WORDS
from service.command_line import read_settings
from service.commands.run import parse
from service.evaluation.command import parser
from service.telemetry.metrics import Labels, Metrics
from tests.support.compose import COMPOSE, PROJECT
from tests.support.pages import PAGES, ROOT, Block, all_blocks, blocks_of, name_of
from tests.support.programs import program
from tests.support.running import RunningService

EXTRAS = PROJECT["optional-dependencies"]


SYNTAX = {"for", "do", "done"}


OTHER_PROGRAMS = {".", "cyclonedx-py", "git", "kubectl", "nox", "npm", "npx", "pip-audit", "pre-commit"}
OTHER_PROGRAMS |= {"prometheus", "pytest", "uv", "uvicorn"}
"""Programs that are not of this project: only the syntax of their commands is checked."""


def commands(text: str) -> list[list[str]]:
    """The words of each command, without variables before it and redirections after it."""
    lines = re.sub(r"(^|\s)#.*", "", text.replace("\\\n", " "), flags=re.M)
    found = [shlex.split(re.sub(r" *>.*", "", part)) for part in re.split(r"&&|;|\n", lines)]
    return [words for each in found if (words := _without_variables(each)) and words[0] not in SYNTAX]


def _without_variables(words: list[str]) -> list[str]:
    words = words[1:] if words[:1] == ["do"] else words
    while words and re.match(r"[A-Z_]+=", words[0]):
        words = words[1:]
    return words


def check_command(words: list[str]) -> None:
    """Check that a command is one that exists, with options that exist."""
    match words:
        case ["delayed-bandits", *rest]:
            _check_service(rest)
        case ["python", "-m", "service", *rest]:
            _check_service(rest)
        case ["python", "-m", "loadtest", *arguments]:
            _check_loadtest(arguments)
        case ["python", "-m", module, *_]:
            assert importlib.util.find_spec(module), module
        case ["python" | "sh" | "bash", path, *_] if path.startswith(("deploy/", ".ci/")):
            assert (ROOT / path).is_file(), path
        case ["kubectl", "apply", "-f" | "-k", path]:
            assert (ROOT / path).exists(), path
        case ["python", "-c", code]:
            compile(code, "<page>", "exec")
        case [pip, "install", *what] if Path(pip).name == "pip":
            _check_install(what)
        case ["docker", "compose", *arguments]:
            _check_compose(arguments)
        case ["docker", "run", *_]:
            assert words[-1] == "delayed-bandits"
        case ["docker", "build", *_, folder]:
            assert (ROOT / folder / "Dockerfile").is_file()
        case _:
            assert words[0] in OTHER_PROGRAMS, words


def _check_service(words: list[str]) -> None:
    match words:
        case ["evaluate", *arguments]:
            parser("delayed-bandits").parse_args(arguments)
        case [word, *arguments] if word in WORDS:
            read_settings(parse(word, arguments, "delayed-bandits").settings)
        case ["serve", *flags] | flags:
            read_settings(flags)


def _check_loadtest(arguments: list[str]) -> None:
    group = typer.main.get_command(app)
    with group.make_context("loadtest", arguments) as context:
        name, command, rest = group.resolve_command(context, arguments)
        command.make_context(name, rest, parent=context).close()


def _check_install(what: list[str]) -> None:
    for each in what:
        if each.startswith(".["):
            assert set(each[2:-1].split(",")) <= EXTRAS.keys(), each
        if each.endswith(".lock"):
            assert (ROOT / each).exists(), each


def _check_compose(arguments: list[str]) -> None:
    services = COMPOSE["services"]
    profiles = {profile for service in services.values() for profile in service.get("profiles", [])}
    for option, value in pairwise(arguments):
        assert option != "--profile" or value in profiles, value
        assert option != "--scale" or value.split("=")[0] in services, value
    if {"run", "restart"} & set(arguments):
        assert arguments[-1] in services, arguments


DIRECTIVES = {"{toctree}"}
"""Of the site, in its lists of pages; ``test_readme.py`` builds it."""


LANGUAGES = {"html", "json", "mermaid", "promql", "python", "sh", "text", "ts"}


CALL = re.compile(r"\b(curl|post) ")


TOURS = [page for page in PAGES if any(CALL.search(block.text) for block in blocks_of(page))]


VOLATILE = {"cursor", "version", "created_at", "last_act_at", "last_event_at", "at"}


END = "--- end of block ---"
TOOLS = {"curl", "cut", "grep", "head", "paste", "rm", "sleep", "wc", "yes"}
"""Programs that these blocks run."""


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_block_says_its_language(page):
    others = [block for block in blocks_of(page) if block.language not in LANGUAGES | DIRECTIVES]
    assert {block.place: block.language for block in others} == {}


def test_no_block_is_missed():
    fences = sum(page.read_text().count("```") for page in PAGES)

    assert fences == 2 * sum(len(blocks_of(page)) for page in PAGES)


@pytest.mark.parametrize("block", all_blocks("json"), ids=lambda block: block.place)
def test_json_parses(block):
    json.loads(block.text)


@pytest.mark.parametrize("block", all_blocks("sh"), ids=lambda block: block.place)
def test_shell_parses_and_its_commands_exist(block):
    if not CALL.search(block.text):
        for words in commands(block.text):
            check_command(words)
    subprocess.run([program("sh"), "-n"], input=block.text, text=True, check=True)


def test_no_call_needs_a_curl_younger_than_7_68():
    assert [block.place for block in all_blocks("sh") if "--json" in block.text] == []


def queries(block: Block) -> list[str]:
    """The queries of a block: each begins at a line that is neither indented nor a comment."""
    text = re.sub(r"^#.*\n", "", block.text, flags=re.M)
    return [query.strip() for query in re.split(r"\n(?=\S)", text.strip())]


@pytest.mark.parametrize("block", all_blocks("promql"), ids=lambda block: block.place)
def test_queries_name_metrics_that_exist(block):
    families = [family.name for family in Metrics(Labels()).registry.collect()]
    for query in queries(block):
        names = re.findall(r"bandit_\w+", query)

        assert names
        assert all(re.sub("_(total|bucket|sum|count)$", "", name) in families for name in names), query


@pytest.mark.servers("promtool")
def test_promtool_parses_the_queries(tmp_path):
    rules = [{"record": "r", "expr": query} for block in all_blocks("promql") for query in queries(block)]
    file = tmp_path / "rules.json"
    file.write_text(json.dumps({"groups": [{"name": "pages", "rules": rules}]}))
    check = subprocess.run(["promtool", "check", "rules", "--lint=none", file], capture_output=True, text=True)

    assert (check.returncode, check.stderr) == (0, "")


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    """A service of the embedded store for all pages."""
    with RunningService(tmp_path_factory.mktemp("pages")) as service:
        service.wait_ready()
        yield service


@pytest.mark.parametrize("page", TOURS, ids=name_of)
def test_the_calls_print_what_the_page_says(page, service):
    steps = steps_of(page)
    script = "\n".join(f"{block.text}\nprintf '\\n{END}\\n'" for block, _ in steps)
    run = script.replace("localhost:8000", service.url.removeprefix("http://"))
    for name in sorted(TOOLS & set(re.findall(r"\w+", script))):
        program(name)
    shell = subprocess.run([program("sh"), "-c", run], capture_output=True, text=True, check=True)
    printed = shell.stdout.split(END)

    for (block, output), got in zip(steps, printed, strict=False):
        assert same_output(output, got.strip()), f"{block.place} prints\n{got}"


def steps_of(page: Path) -> list[tuple[Block, Block]]:
    """Blocks that call the service, each with the block of what it prints."""
    blocks = blocks_of(page)
    steps = [(block, blocks[n + 1]) for n, block in enumerate(blocks) if CALL.search(block.text)]
    for block, output in steps:
        assert output.language in {"json", "text"}, f"{block.place} is not followed by its output"
    return steps


def same_output(output: Block, got: str) -> bool:
    """Whether a command printed what the page says: one JSON value, or lines of JSON or text."""
    if output.language == "json":
        return same(json.loads(output.text), json.loads(got))
    told, lines = output.text.splitlines(), got.splitlines()
    return len(told) == len(lines) and all(map(same, map(value, told), map(value, lines)))


def value(line: str) -> object:
    """A line's JSON value, or the line."""
    return json.loads(line) if line.startswith("{") else line


def same(told: object, got: object) -> bool:
    """Equal, numbers up to rounding of another machine's exp and log, volatile fields aside."""
    if isinstance(told, dict) and isinstance(got, dict):
        return told.keys() == got.keys() and all(same(told[key], got[key]) for key in told.keys() - VOLATILE)
    if isinstance(told, list) and isinstance(got, list):
        return len(told) == len(got) and all(map(same, told, got))
    if isinstance(told, float) and isinstance(got, float):
        return math.isclose(told, got, rel_tol=1e-9)
    return told == got


def test_every_page_is_looked_at():
    tours = {"README.md", "docs/feedback.md", "docs/errors.md", "docs/idempotency.md"}
    assert {name_of(page) for page in TOURS} >= tours
    assert ROOT / "docs/decisions/0001-losses-not-rewards.md" in PAGES


WITH_PYTHON = [page for page in PAGES if any(block.language == "python" for block in blocks_of(page))]


def saved(page: Path) -> dict[str, str]:
    """What a page says to put into files, by their names: later blocks import it."""
    lines = page.read_text().splitlines()
    before = [(re.search(r"into `(\w+\.py)`", lines[block.line - 3]), block) for block in blocks_of(page)]
    return {found[1]: block.text for found, block in before if found}


@pytest.mark.slow
@pytest.mark.parametrize("page", WITH_PYTHON, ids=name_of)
def test_the_program_prints_what_the_page_says(page, tmp_path):
    blocks = blocks_of(page)
    steps = [(block, blocks[n + 1 :][:1]) for n, block in enumerate(blocks) if block.language == "python"]
    (tmp_path / "delayed_bandits").symlink_to(ROOT / "service")  # the name of the wheel
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    with RunningService(tmp_path, "--store-url", "memory://") as service:
        service.wait_ready()
        for name, text in saved(page).items():
            (tmp_path / name).write_text(text.replace("http://localhost:8000", service.url))
        program = "\n".join(f"{block.text}\nprint({END!r})" for block, _ in steps)
        program = program.replace("http://localhost:8000", service.url)
        command = [sys.executable, "-W", "error", "-c", program]
        run = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path, check=False)

    assert run.returncode == 0, run.stderr
    for (block, following), printed in zip(steps, run.stdout.split(f"{END}\n"), strict=False):
        told = following[0].text if following and following[0].language == "text" else ""
        assert printed == told, f"{block.place} prints\n{printed}"


def test_the_page_of_the_client_is_among_them():
    assert "docs/client.md" in map(name_of, WITH_PYTHON)


def test_the_file_that_the_tutorial_imports_is_found():
    assert list(saved(ROOT / "docs/tutorial.md")) == ["shop.py"]
