"""Takes the picture of the dashboard that the README begins with.

``python -m tests.support.dashboard_picture`` plays the demo's shop, and writes ``docs/results/verdict.png``.
"""

import os
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

from service.client import Bandits
from service.commands.demo import SESSION, Shop, play, running_service
from tests.support.pages import ROOT
from tests.support.programs import program


def take(path: Path) -> None:
    """Play, and write the picture of what is on the first screen then."""
    with (
        running_service(0) as url,
        Bandits(url, api_key="", timeout=30) as bandits,
        sync_playwright() as playwright,
    ):
        play(Shop(bandits, seed=1), visitors=200, seconds=40, show=lambda _: None)
        sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=program("chromium"), args=sandbox)
        page = browser.new_page(viewport={"width": 1000, "height": 1010})
        page.goto(f"{url}/#/sessions/{SESSION}")
        page.wait_for_selector(".plot .main-svg", state="attached")
        page.wait_for_load_state("networkidle")
        page.screenshot(path=path)
        browser.close()


if __name__ == "__main__":
    take(Path(sys.argv[1]) if sys.argv[1:] else ROOT / "docs/results/verdict.png")
