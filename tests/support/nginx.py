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
    text = config.replace("service:8000", service)
    text = text.replace("listen 8080;", f"listen 127.0.0.1:{port};").replace("/tmp/nginx", f"{folder}/nginx")
    (folder / "nginx.conf").write_text(text)
    flags = ["-p", str(folder), "-c", str(folder / "nginx.conf"), "-g", f"daemon off;{AS_ROOT}"]
    with (folder / "log").open("wb") as log, subprocess.Popen([program("nginx"), *flags], stderr=log) as nginx:
        try:
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=SECONDS) as client:
                wait_until(lambda: _listens(client))
                yield client
        finally:
            nginx.terminate()


def reload(folder: Path, config: str) -> None:
    """Let the nginx of a folder go on with the upstream of another configuration."""
    file, upstream = folder / "nginx/nginx.conf", re.compile(r"upstream bandit \{.*?\}", re.DOTALL)
    (new,) = upstream.findall(config)
    file.write_text(upstream.sub(new, file.read_text()))
    os.kill(int((folder / "nginx/nginx.pid").read_text()), signal.SIGHUP)


def _listens(client: httpx.Client) -> bool:
    try:
        client.get("/.problems/404")
    except httpx.ConnectError:
        return False
    return True
