"""The flags of the command line: their help, and errors that show no values."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from typing import Any, NoReturn

from .. import __version__
from .errors import SettingsError
from .fields import Settings

_FLAG = re.compile(r"--[a-z][a-z-]*")
_PROGRAM = "python -m service" if __package__ == "service.settings" else "delayed-bandits serve"
"""How it was started: from a checkout, or as the wheel installs it."""
_DESCRIPTION = (
    "Serve bandit online learning over HTTP: applications ask which choice to show, and report losses when they "
    "become known. Each flag can also be set as an environment variable, such as BANDIT_STORE_URL for --store-url; "
    "flags win. `--help` without `serve` lists the other commands."
)
_VALUES = {
    "StoreUrl": "URL",
    "Path": "PATH",
    "SecretText": "JSON",
    "str": "TEXT",
    "int": "INTEGER",
    "float": "NUMBER",
    "bool": "{true,false}",
}
"""What the help calls the value of a flag, by the type of its field."""


class FlagParser(argparse.ArgumentParser):
    """Parses the flags; its errors name flags and never show values, which may be secrets."""

    def __init__(self, arguments: Sequence[str]) -> None:
        super().__init__(prog=_PROGRAM, description=_DESCRIPTION, allow_abbrev=False)
        self.add_argument("--version", action="version", version=f"delayed-bandits {__version__}")
        self._given = [word.partition("=")[0] for word in arguments]

    def error(self, message: str) -> NoReturn:
        """Refuse the flags; ``message`` has their values."""
        raise SettingsError(f"{self._reason(message)}: see --help") from None

    def _reason(self, message: str) -> str:
        known = {f"--{name.replace('_', '-')}": field for name, field in Settings.model_fields.items()}
        if (bare := re.match(r"argument (--[a-z-]+): expected one argument", message)) and bare[1] in known:
            return f"{bare[1]} needs {'true or false' if known[bare[1]].annotation is bool else 'a value'}"
        unknown = [
            word for word in self._given if _FLAG.fullmatch(word) and word not in {*known, "--help", "--version"}
        ]
        return f"there is no flag {', '.join(unknown)}" if unknown else "unexpected argument"


def add_flag(parser: argparse.ArgumentParser, *names: str, **options: Any) -> argparse.Action:
    """Add a flag whose help names no Python types or values.

    Parameters
    ----------
    parser : of the command line, or a group of its flags
    names : of the flag, with their hyphens
    options : as pydantic-settings gives them to ``add_argument``: with ``help`` and ``metavar``
    """
    text = options["help"].removesuffix(" (default: null)").replace("(default: False)", "(default: false)")
    options |= {"help": text, "metavar": _VALUES.get(options["metavar"], options["metavar"])}
    return parser.add_argument(*names, **options)
