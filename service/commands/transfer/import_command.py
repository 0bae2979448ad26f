"""``import``: sessions from files to a service."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

from ...client import ConflictError
from ..screen import CommandError, Screen, add_service_flags, advance
from .session_files import SUFFIX, import_from, service_at

DESCRIPTION = "Create sessions from files that `export` wrote; each goes on as it was. None may exist already."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags."""
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help=f"files, or folders of *{SUFFIX}")
    parser.add_argument("--skip-present", action="store_true", help="leave sessions alone that exist already")
    add_service_flags(parser)


def run(options: argparse.Namespace, screen: Screen) -> int:
    """Create a session for each file.

    Parameters
    ----------
    options : the flags of ``add_arguments``, parsed
    screen : where the sessions are listed

    Returns
    -------
    The exit code, 0.

    Raises
    ------
    CommandError
        where a session exists already, unless such sessions are skipped, or a folder has no files.
    BanditsError, OSError
        where the service refuses, or a file can't be read.
    """
    files = list(_files(options.files))
    done, skipped = [], []
    with screen.progress(len(files), "imported") as bar, service_at(options.url) as http:
        for file in files:
            try:
                done.append(import_from(http, file)["session_id"])
            except ConflictError as error:
                if not options.skip_present:
                    raise CommandError(f"{file}: {error}; {len(done)} were imported before it") from error
                skipped.append(file.name.removesuffix(SUFFIX))
            advance(bar)
    if screen.as_json:
        screen.json({"imported": done, "skipped": skipped})
    else:
        screen.say(f"{len(done)} sessions imported" + (f", {len(skipped)} were there" if skipped else ""))
    return 0


def _files(given: Sequence[Path]) -> Iterator[Path]:
    for path in given:
        found = sorted(path.glob(f"*{SUFFIX}")) if path.is_dir() else [path]
        if not found:
            raise CommandError(f"{path} has no *{SUFFIX}")
        yield from found
