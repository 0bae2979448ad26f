"""Copies of the service that differ as two releases do: the second brings a field, and with it schema 2."""

import shutil
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
        "    return _counted(run.learner",
        '    return {"most_outstanding": run.ledger.most_outstanding} | _counted(run.learner',
    ),
    (
        "serialization/state.py",
        "SCHEMAS: Mapping[int, Schema] = {1: Schema(_write, _read)}\n",
        """
def _write_2(writer: Writer, ledger: Ledger, state: Any, arms: Arms | None, shared: Any) -> None:
    _write(writer, ledger, state, arms, shared)
    writer.parts.append(LENGTH.pack(ledger.most_outstanding))


def _read_2(reader: Reader, state_type: Any, by_arm: bool, shared_type: type | None) -> Decoded:
    decoded = _read(reader, state_type, by_arm, shared_type)
    (decoded.ledger.most_outstanding,) = reader.unpack(LENGTH)
    return decoded


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
