"""Copies of the service that differ as two releases do: the second brings a field, and with it schema 2.

``python -m tests.support.two_builds FOLDER`` makes both, for ``python -m loadtest upgrade``.
"""

import shutil
import sys
from pathlib import Path

SERVICE = Path(__file__).parents[2] / "service"
Patch = tuple[str, str, str]
"""A file of the service, a text that it has once, and what takes its place."""

QUICK: list[Patch] = [("commit/schemas.py", "RENEW_SECONDS = 5.0", "RENEW_SECONDS = 0.3")]
SECOND: list[Patch] = [
    *QUICK,
    (
        "engine/ledger.py",
        "    equal_losses: bool = True\n",
        "    most_outstanding: int = 0\n    equal_losses: bool = True\n",
    ),
    (
        "engine/arm_run.py",
        "        ledger.outstanding += 1\n",
        """        ledger.outstanding += 1
        ledger.most_outstanding = max(ledger.most_outstanding, ledger.outstanding)
""",
    ),
    (
        "engine/arm_run.py",
        "            ledger.outstanding += more\n",
        """            ledger.outstanding += more
            ledger.most_outstanding = max(ledger.most_outstanding, ledger.outstanding)
""",
    ),
    (
        "serialization/summary.py",
        '        "last_act_at": ',
        '        "most_outstanding": ledger.most_outstanding,\n        "last_act_at": ',
    ),
    (
        "serialization/state.py",
        "SCHEMAS: Mapping[int, Schema] = {1: Schema(_write, _read)}\n",
        """
def _write_2(run: Run, schema: int, effective: float | None, mostly_surplus: bool) -> list[bytes]:
    return [*_write(run, schema, effective, mostly_surplus), LENGTH.pack(run.ledger.most_outstanding)]


def _read_2(head: bytes, reader: Reader, run: Run) -> Run:
    run = _read(head, reader, run)
    (run.ledger.most_outstanding,) = reader.unpack(LENGTH)
    return run


def _narrow_1(run: Run) -> None:
    run.ledger.most_outstanding = 0


SCHEMAS: Mapping[int, Schema] = {1: Schema(_write, _read, _narrow_1), 2: Schema(_write_2, _read_2)}
""",
    ),
]


def build(folder: Path, patches: list[Patch]) -> Path:
    """Copy the service to a folder, and change it."""
    shutil.copytree(SERVICE, folder / "service", ignore=shutil.ignore_patterns("__pycache__"))
    for file, old, new in patches:
        path = folder / "service" / file
        text = path.read_text()
        assert text.count(old) == 1, f"{Path(__file__).name} does not fit service/{file} any more: {old!r}"
        path.write_text(text.replace(old, new))
    return folder


if __name__ == "__main__":
    for name, patches in (("first", []), ("second", SECOND[len(QUICK) :])):
        build(Path(sys.argv[1]) / name, patches)
