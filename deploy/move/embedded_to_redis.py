"""Move all sessions of an embedded store to a Redis, and check each of them there.

    BANDIT_STORE_URL=redis://redis.example:6379/0 python deploy/move/embedded_to_redis.py bandit-data

Stop the service of the data folder first: what it acknowledges during the move would be missing. The folder is only
read from, so that the way back is to start on it again. Settings (``BANDIT_*``) are those of the new service; API
keys are left out, as both services listen on loopback, for the time of the move. The sessions' files lie in a
temporary folder that only this user can read. Exit code 0: all sessions are in the Redis as they were.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

PROGRAM = [sys.executable, "-m", "delayed_bandits" if find_spec("delayed_bandits") else "service"]
CHANGES = {"version", "last_act_at", "last_event_at"}
"""Fields of a view that say nothing of what was learned; the version is another store's."""
TRIES = 3
"""Comparisons of one session: a window may end between two views."""
PAGE = 1000


class MoveError(Exception):
    """The move failed; the text says why."""


@contextmanager
def service(folder: Path, environment: Mapping[str, str], *flags: str) -> Iterator[str]:
    """Run a service on a free port of loopback, its log in ``folder``, and yield its address."""
    log = folder / f"service-{len(list(folder.iterdir()))}.log"
    command = [*PROGRAM, "--host", "127.0.0.1", "--port", "0", *flags]
    with log.open("wb") as file, subprocess.Popen(command, stderr=file, env=dict(environment)) as process:  # noqa: S603
        try:
            yield _address(process, log)
        finally:
            process.terminate()


def _address(process: subprocess.Popen[bytes], log: Path) -> str:
    with log.open() as file:
        while process.poll() is None:
            if found := re.search(r"listening on (http://[^\s,]+)", file.readline()):
                return found[1]
            try:
                process.wait(0.05)
            except subprocess.TimeoutExpired:
                continue
    raise MoveError(f"a service did not start: {log.read_text().strip()}")


def command(url: str, *words: str) -> dict[str, Any]:
    """Run a command against a service, and return its JSON."""
    ended = subprocess.run(  # noqa: S603 - our own program
        [*PROGRAM, *words, "--json", "--url", url], stdout=subprocess.PIPE, text=True, check=False
    )
    if ended.returncode:
        raise MoveError(f"{words[0]} failed")
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


def read(url: str, path: str, **query: str | int) -> dict[str, Any]:
    """Read a page or a view."""
    address = f"{url}{path}?{urllib.parse.urlencode(query)}" if query else f"{url}{path}"
    with urllib.request.urlopen(address) as answer:  # noqa: S310 - a service of ours
        found: dict[str, Any] = json.load(answer)
        return found


def arms(url: str, session: str) -> Iterator[Any]:
    """Go through the arms of a session, with their counts and means."""
    query: dict[str, str | int] = {"limit": PAGE}
    while True:
        page = read(url, f"/v1/sessions/{session}/arms", **query)
        yield from page["arms"]
        if page["next_cursor"] is None:
            return
        query["cursor"] = page["next_cursor"]


def state(url: str, session: str) -> dict[str, Any]:
    """Return what is known of a session: its view, and its arms where it has some."""
    view = {name: value for name, value in read(url, f"/v1/sessions/{session}").items() if name not in CHANGES}
    return view | {"arms of the list": list(arms(url, session)) if "probabilities" in view else None}


def audit(source: str, target: str, session: str) -> list[str]:
    """Return the fields in which a session differs between two services."""
    different = ["everything"]
    for _ in range(TRIES):
        here, there = state(source, session), state(target, session)
        different = sorted(name for name in here.keys() | there.keys() if here.get(name) != there.get(name))
        if not different:
            break
    return different


def move(data: Path, *, skip_present: bool) -> int:
    """Move all sessions of a data folder to the store of the settings; return how many there are."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("BANDIT_API_KEYS")}
    bare = {name: value for name, value in environment.items() if not name.startswith("BANDIT_STORE_")}
    with tempfile.TemporaryDirectory(prefix="bandit-move-") as made:
        folder = Path(made)
        with service(folder, bare, "--data-dir", str(data)) as source, service(folder, environment) as target:
            exported = command(source, "export", "--all", "--to", str(folder / "sessions"))["exported"]
            if exported:
                words = ("--skip-present",) if skip_present else ()
                command(target, "import", str(folder / "sessions"), *words)
            names = [each["session_id"] for each in exported]
            wrong = {name: fields for name in names if (fields := audit(source, target, name))}
    if wrong:
        lines = (f"{name}: {', '.join(fields)}" for name, fields in wrong.items())
        raise MoveError("these sessions differ:\n" + "\n".join(lines))
    return len(names)


def main() -> int:
    """Move as the command line says."""
    parser = argparse.ArgumentParser(description="Move all sessions of an embedded store to a Redis.")
    parser.add_argument("data", type=Path, help="data folder of the embedded store, whose service is stopped")
    parser.add_argument("--skip-present", action="store_true", help="go on with a move that was interrupted")
    arguments = parser.parse_args()
    try:
        if not arguments.data.is_dir():
            raise MoveError(f"{arguments.data} is no folder")
        if not any(os.environ.get(f"BANDIT_STORE_URL{suffix}") for suffix in ("", "_FILE")):
            raise MoveError("name the Redis in BANDIT_STORE_URL, or its file in BANDIT_STORE_URL_FILE")
        moved = move(arguments.data, skip_present=arguments.skip_present)
    except (MoveError, OSError) as error:
        sys.stderr.write(f"move: {error}\n")
        return 1
    sys.stdout.write(f"{moved} sessions are in the Redis, each as it was\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
