"""Writes the client that blocks, ``service/client/blocking.py``, from the one that is awaited.

``python -m tests.support.blocking_client``. The package ``unasync`` changes neither docstrings nor what a blocking
client does in another way, so this does without it. What is written is formatted as ruff does it, unless a line of
``awaited.py`` is broken that fits without its ``await``.
"""

import re
from pathlib import Path

CLIENT = Path(__file__).parents[2] / "service" / "client"
HEADER = "# Made from awaited.py by `python -m tests.support.blocking_client`: change that, and run the command.\n"
OTHERWISE = {
    "The awaited client, from which ``blocking.py`` is made:": "The blocking client:",
    "import asyncio\nimport uuid\n": "import time\nimport uuid\n",
    "from .blocking import Calls\n": "",
    "await asyncio.sleep(": "time.sleep(",
    "            for each in found:\n                yield each\n": "            yield from found\n",
    "    report_transport : the same for reports, whose thread blocks\n": "",
    "        report_transport: httpx.BaseTransport | None = None,\n": "",
    "        self._report_calls = Calls(target, report_transport)\n": "",
    "Reporter(self._report_calls": "Reporter(self._calls",
    "bool:  # noqa: ASYNC109 - waits in a thread": "bool:",
    "await asyncio.to_thread(self._reporter.flush, timeout)": "self._reporter.flush(timeout)",
    "await asyncio.to_thread(self._reporter.close)": "self._reporter.close()",
    "        self._report_calls.close()\n": "",
}
"""What blocks in other words than those of ``WORDS``."""
WORDS = {r"\b(?:async|await) ": "", r"\bAsync(?=[A-Z])": "", "__aenter__": "__enter__", "__aexit__": "__exit__"}


def made_from(source: str) -> str:
    """Return the client that blocks."""
    for awaited, blocking in OTHERWISE.items():
        if source.count(awaited) != 1:
            raise ValueError(f"not once in awaited.py: {awaited}")
        source = source.replace(awaited, blocking)
    for awaited, blocking in WORDS.items():
        source = re.sub(awaited, blocking, source)
    return HEADER + source


if __name__ == "__main__":
    (CLIENT / "blocking.py").write_text(made_from((CLIENT / "awaited.py").read_text()))
