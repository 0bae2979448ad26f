"""``python`` blocks of a page run in one program against a real service; the next block holds what each prints."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.pages import PAGES, ROOT, blocks_of, name_of
from tests.support.running import RunningService

END = "--- end of block ---"
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
