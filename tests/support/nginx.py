"""A real nginx with docs/nginx.conf, its addresses and files moved to where a test may have them."""

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from loadtest.processes import free_port
from tests.support.compose import ROOT
from tests.support.programs import program
from tests.support.waiting import SECONDS, wait_until

AS_ROOT = " user root;" if os.geteuid() == 0 else ""
"""Else root's nginx would read and write as a user who may not enter a test's folder."""
CONFIG = (ROOT / "docs/nginx.conf").read_text()


@contextmanager
def before(service: str, folder: Path, config: str = CONFIG) -> Iterator[httpx.Client]:
    """A client of nginx before the service at this host and port."""
    port, folder = free_port(), folder / "nginx"
    folder.mkdir()
    _write(folder, config.replace("service:8000", service), port)
    flags = ["-p", str(folder), "-c", str(folder / "nginx.conf"), "-g", f"daemon off;{AS_ROOT}"]
    with (folder / "log").open("wb") as log, subprocess.Popen([program("nginx"), *flags], stderr=log) as nginx:
        try:
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=SECONDS) as client:
                wait_until(lambda: _listens(client))
                yield client
        finally:
            nginx.terminate()


def reload(folder: Path, config: str) -> None:
    """Let the nginx of a folder go on with another configuration."""
    port = re.findall(r"listen 127.0.0.1:(\d+);", (folder / "nginx/nginx.conf").read_text())[0]
    _write(folder / "nginx", config, int(port))
    os.kill(int((folder / "nginx/nginx.pid").read_text()), signal.SIGHUP)


def _write(folder: Path, config: str, port: int) -> None:
    text = config.replace("listen 8080;", f"listen 127.0.0.1:{port};").replace("/tmp/nginx", f"{folder}/nginx")
    (folder / "nginx.conf").write_text(text)


def _listens(client: httpx.Client) -> bool:
    try:
        client.get("/.problems/404")
    except httpx.ConnectError:
        return False
    return True
