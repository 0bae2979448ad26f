"""``export``: sessions of a service to files."""

from __future__ import annotations

import argparse
from pathlib import Path

from ..screen import CommandError, Screen, add_service_flags, advance, client_of
from .session_files import SUFFIX, export_to, service_at

DESCRIPTION = (
    f"Write sessions to files, ID{SUFFIX} each: state, counts and the ids of events, but neither the decision log "
    "nor stored answers. The files hold the seeds: keep them secret."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags."""
    parser.add_argument("sessions", nargs="*", metavar="SESSION", help="ids of sessions")
    parser.add_argument("--all", action="store_true", help="all sessions of the service")
    parser.add_argument("--to", type=Path, default=Path(), metavar="FOLDER", help="where to write (here)")
    add_service_flags(parser)


def run(options: argparse.Namespace, screen: Screen) -> int:
    """Write a file for each session.

    Parameters
    ----------
    options : the flags of ``add_arguments``, parsed
    screen : where the files are listed

    Returns
    -------
    The exit code, 0.

    Raises
    ------
    CommandError
        where neither sessions are named nor all of them, or both.
    BanditsError, OSError
        where the service refuses, or a file can't be written.
    """
    if bool(options.sessions) == options.all:
        raise CommandError("name sessions, or all of them with --all")
    names = options.sessions
    if options.all:
        with client_of(options) as bandits:
            names = [view.session_id for view in bandits.sessions.list(limit=1000)]
    options.to.mkdir(parents=True, exist_ok=True, mode=0o700)
    files = []
    with screen.progress(len(names), "exported") as bar, service_at(options.url) as http:
        for name in names:
            files.append(export_to(http, name, options.to))
            advance(bar)
    if screen.as_json:
        screen.json({"exported": [{"session_id": n, "file": str(f)} for n, f in zip(names, files, strict=True)]})
    else:
        screen.say(f"{len(files)} sessions exported to {options.to.absolute()}")
    return 0
