"""Each program of ``docs/examples`` against one real service."""

import json
import os
import subprocess
import sys

import pytest

from service.client import Bandits
from tests.support.pages import ROOT, blocks_of, rows
from tests.support.running import RunningService

EXAMPLES = ROOT / "docs/examples"
PURCHASES = [{"item": "hat", "order": f"o-{number % 8}", "amount": 20 * number} for number in range(10)]
BROWSER = """
import asyncio, httpx, re
from shop import SERVICE, app, shop
async def visit():
    browser = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://shop.example")
    async with app.router.lifespan_context(app), browser, httpx.AsyncClient(base_url=SERVICE) as clicks:
        page = (await browser.get("/")).text
        item, token = re.search(r'href="/items/(\\w+)" data-bandit-token="([^"]+)"', page).groups()
        script = re.search(r'script src="([^"]+)"', page)[1]
        assert "bandit" in (await clicks.get(script)).text
        for _ in range(2):
            assert (await clicks.post("/v1/clicks", content=token)).status_code == 204
        assert (await browser.get(f"/items/{item}")).json() == {"item": item}
        view = await shop.view()
        print(view.feedbacks, "click of", view.slot)
asyncio.run(visit())
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Runs a program with the names of the wheel, and returns what it prints."""
    folder = tmp_path_factory.mktemp("examples")
    (folder / "delayed_bandits").symlink_to(ROOT / "service")
    with RunningService(folder, "--store-url", "memory://") as service, Bandits(service.url) as bandits:
        service.wait_ready()
        names = {"DELAYED_BANDITS_URL": service.url, "PYTHONPATH": str(folder)}

        def run(*words, text=""):
            command = [sys.executable, "-W", "error", *words]
            ended = subprocess.run(
                command, input=text, capture_output=True, text=True, env=os.environ | names, cwd=EXAMPLES
            )
            assert ended.returncode == 0, ended.stderr
            return ended.stdout.splitlines()

        run.bandits = bandits
        yield run


@pytest.mark.processes
@pytest.mark.quick
def test_a_purchase_that_is_read_twice_counts_once(run):
    lines = "".join(json.dumps(each) + "\n" for each in PURCHASES)
    assert run("consumer.py", text=lines) == ["0 applied, 0 duplicates, 10 skipped, 0 wrong"]

    run.bandits.session("purchases").acts(200)
    wrong = (
        'torn {\n[]\n{"item": "hat", "order": "o", "amount": null}\n{"item": "pen", "order": "p", "amount": 1}\n'
        '{"item": "hat", "order": "q", "amount": NaN}\n{"item": "hat", "order": "\\ud800", "amount": 1}\n'
    )
    assert run("consumer.py", text=lines + wrong) == ["8 applied, 2 duplicates, 0 skipped, 6 wrong"]
    assert run("consumer.py", text=lines) == ["0 applied, 10 duplicates, 0 skipped, 0 wrong"]


@pytest.mark.slow
def test_a_click_on_the_page_counts_once(run):
    assert run("-c", BROWSER) == ["1 click of 1"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "says"),
    [
        *(("tuner.py", "weights [0.6, 0.2]"), ("llm_router.py", "most requests go to medium")),
        *(("segments.py", "north: umbrella"), ("segments.py", "south: sandals")),
        ("offline_evaluation.py", "shoes: 0."),
    ],
)
def test_a_program_prints_what_it_found(run, program, says):
    assert any(line.startswith(says) for line in run(program))


def test_every_example_is_listed():
    listed = {row.split("](")[1].split(")")[0] for row in rows("docs/examples/README.md", "program", "shows")}

    assert listed == {path.name for path in EXAMPLES.glob("*.py")}


def test_the_page_of_the_tutorial_is_that_of_the_example():
    """But for its comments and the name of its session."""
    page = next(block.text for block in blocks_of(ROOT / "docs/tutorial.md") if block.language == "python")
    program = (EXAMPLES / "shop.py").read_text()

    for line in page.splitlines():
        plain = line.replace("tutorial-", "").replace('"http://localhost:8000"', "")
        if "Bandits(" not in line and "def " not in line and "act(" not in line and "action.label" not in line:
            assert plain in program
