"""``export`` and ``import``: whole sessions to files and from them, so that they move to another store.

A file holds a session's document; its bytes stay as the service wrote them.
"""

import argparse
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from ..client import ApiError, ConflictError, NoAnswerError, PermissionDeniedError
from ..client.calls import answer_of
from .run import Command, CommandError, Screen, add_service_flags, client_of, http_client

SUFFIX = ".session.json"
SECONDS = 600.0
"""For one document: it may have 200 MB."""


def _add_export_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("sessions", nargs="*", metavar="SESSION", help="ids of sessions")
    parser.add_argument("--all", action="store_true", help="all sessions of the service")
    parser.add_argument("--to", type=Path, default=Path(), metavar="FOLDER", help="where to write (here)")
    add_service_flags(parser)


def _export(options: argparse.Namespace, screen: Screen) -> int:
    """Write sessions to files, ID.session.json each: state, counts and the ids of events.

    Neither the decision log nor stored answers are in them. The files hold the seeds: keep them secret.
    """
    if bool(options.sessions) == options.all:
        raise CommandError("name sessions, or all of them with --all")
    names = options.sessions
    if options.all:
        with client_of(options) as bandits:
            names = [view.session_id for view in bandits.sessions.list(limit=1000)]
    options.to.mkdir(parents=True, exist_ok=True, mode=0o700)
    files = [options.to / f"{name}{SUFFIX}" for name in names]
    with screen.progress(len(names), "exported") as advance, _service_at(options.url) as http:
        for done, (name, file) in enumerate(zip(names, files, strict=True)):
            try:
                _export_to(http, name, file)
            except ApiError as error:
                if len(names) == 1 or isinstance(error, PermissionDeniedError):
                    raise
                raise CommandError(f"{name}: {error}; {done} were exported before it") from error
            advance()
    exported = [{"session_id": name, "file": str(file)} for name, file in zip(names, files, strict=True)]
    screen.tell({"exported": exported}, f"{len(files)} sessions exported to {options.to.absolute()}")
    return 0


def _export_to(http: httpx.Client, session_id: str, target: Path) -> None:
    """Write the document of a session to a file, which appears whole or not at all."""
    begun = target.with_suffix(".part")
    with http.stream("GET", f"/v1/sessions/{session_id}/export") as response:
        if not response.is_success:
            _answer(response)  # Which raises.
        with begun.open("wb") as file:
            for part in response.iter_bytes():
                file.write(part)
            file.flush()
            os.fsync(file.fileno())
    begun.replace(target)


def _add_import_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help=f"files, or folders of *{SUFFIX}")
    parser.add_argument("--skip-present", action="store_true", help="leave sessions alone that exist already")
    add_service_flags(parser)


def _import(options: argparse.Namespace, screen: Screen) -> int:
    """Create sessions from files that `export` wrote; each goes on as it was. None may exist already."""
    files: list[Path] = []
    for path in options.files:
        found = sorted(path.glob(f"*{SUFFIX}")) if path.is_dir() else [path]
        if not found:
            raise CommandError(f"{path} has no *{SUFFIX}")
        files += found
    done, skipped = [], []
    headers = {"Content-Type": "application/json"}
    with screen.progress(len(files), "imported") as advance, _service_at(options.url) as http:
        for file in files:
            response = http.post("/v1/sessions/import", content=file.read_bytes(), headers=headers)
            try:
                done.append(_answer(response)["session_id"])
            except ConflictError as error:
                if not options.skip_present:
                    raise CommandError(f"{file}: {error}; {len(done)} were imported before it") from error
                skipped.append(file.name.removesuffix(SUFFIX))
            advance()
    text = f"{len(done)} sessions imported" + (f", {len(skipped)} were there" if skipped else "")
    screen.tell({"imported": done, "skipped": skipped}, text)
    return 0


@contextmanager
def _service_at(url: str) -> Iterator[httpx.Client]:
    with http_client(url, SECONDS) as http:
        try:
            yield http
        except httpx.HTTPError as error:
            raise NoAnswerError(f"{http.base_url}: {type(error).__name__}: {error}") from error


def _answer(response: httpx.Response) -> Any:
    return answer_of(str(response.url), response.status_code, response.headers, response.read())


EXPORT = Command(_add_export_arguments, _export)
IMPORT = Command(_add_import_arguments, _import)
