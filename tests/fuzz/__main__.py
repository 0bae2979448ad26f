"""Coverage-guided fuzzing, seconds each: ``python -m tests.fuzz state_codec FOLDER -max_total_time=600``.

Needs atheris. What is found is written to the folder; ``corpus`` keeps what was mended.
"""

import importlib
import sys
from pathlib import Path

import atheris

target, folder = sys.argv.pop(1), Path(sys.argv[1])
with atheris.instrument_imports(include=["service"]):
    module = importlib.import_module(f"tests.fuzz.{target}")
folder.mkdir(parents=True, exist_ok=True)
for number, seed in enumerate(module.seeds()):
    (folder / f"seed-{number}").write_bytes(seed)
atheris.Setup(sys.argv, module.one_input)
atheris.Fuzz()
