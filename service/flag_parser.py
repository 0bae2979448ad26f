"""The parser of a command's flags, for commands that need nothing of the server, too."""

from __future__ import annotations

import argparse
from typing import NoReturn

WRONG_USE = 2
"""Exit code for a command line that can't be read."""


class FlagParser(argparse.ArgumentParser):
    """``argparse``'s parser, without the usage before each error; ``--help`` prints that."""

    def error(self, message: str) -> NoReturn:
        """End the program and say why, in one line."""
        self.exit(WRONG_USE, f"{self.prog}: {' '.join(message.split())}; see --help\n")
