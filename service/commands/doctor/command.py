"""The command line of ``doctor``."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator

from ...command_line import read_settings
from ...settings import Settings, SettingsError
from ..screen import CommandError, Screen
from ..service_flags import URL_VARIABLE
from . import service_checks, settings_checks, store_checks
from .finding import Finding, Level

DESCRIPTION = (
    "Check the settings (BANDIT_* and the flags of serve), the store that they name, and with --url a running "
    "service. With --url the store is checked only where a setting names it. "
    "Nothing is changed or started. Exit code 0: all is well, 1: something should be changed, 2: acknowledged data "
    "will be lost, or the service can't work."
)
SIGNS = {Level.OK: "ok", Level.WARNING: "warning", Level.ERROR: "ERROR"}
STYLES = {Level.OK: "green", Level.WARNING: "yellow", Level.ERROR: "red"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags; those of the settings are read as ``serve`` reads them."""
    parser.add_argument(
        "--url", default=os.environ.get(URL_VARIABLE), help=f"a running service to check, too ({URL_VARIABLE})"
    )
    parser.set_defaults(settings=[])


def run(options: argparse.Namespace, screen: Screen) -> int:
    """Print a line for each finding.

    Parameters
    ----------
    options : the flags of ``add_arguments``, and ``settings``: the flags of ``serve``, not read yet
    screen : where they are printed

    Returns
    -------
    The exit code: the level of the worst finding.

    Raises
    ------
    CommandError
        where the settings can't be read.
    """
    try:
        settings = read_settings(options.settings)
    except SettingsError as refused:
        raise CommandError(str(refused), code=int(Level.ERROR)) from None
    worst = Level.OK
    lines = []
    for each in _findings(settings, options.url):
        worst = max(worst, each.level)
        lines.append({"level": each.level.name.lower(), **{name: getattr(each, name) for name in NAMED}})
        if not screen.as_json:
            _print(each, screen)
    if screen.as_json:
        screen.json({"findings": lines, "exit_code": int(worst)})
    return int(worst)


NAMED = ("subject", "found", "do")


def _findings(settings: Settings, url: str | None) -> Iterator[Finding]:
    yield from settings_checks.check(settings, os.environ)
    if not url or _names_a_store(settings):
        yield from store_checks.check(settings)
    if url:
        yield from service_checks.check(url)


def _names_a_store(settings: Settings) -> bool:
    """Return whether a setting names a store: that of a service elsewhere is not the one of the defaults."""
    return settings.store_url.scheme != "embedded" or "data_dir" in settings.model_fields_set


def _print(finding: Finding, screen: Screen) -> None:
    advice = f"; {finding.do}" if finding.do else ""
    screen.console.print(f"{SIGNS[finding.level]:<8}", style=STYLES[finding.level], end="")
    screen.console.print(f"{finding.subject}: {finding.found}{advice}", soft_wrap=True)
