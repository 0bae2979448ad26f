"""Commands: ``python -m loadtest replay ...``."""

from __future__ import annotations

import os
import sys

sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: PTH123, SIM115 - closed by whoever started this

try:
    from loadtest.commands import app
except ModuleNotFoundError as missing:
    sys.exit(f"{missing.name} is not installed; the load test needs its extra: pip install '.[loadtest]'")

if __name__ == "__main__":
    app(prog_name="python -m loadtest")
