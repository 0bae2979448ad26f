"""What fuzzing found, and what it starts from, stays mended: see docs/security.md for how it is run."""

from importlib import import_module
from pathlib import Path

import pytest

CORPUS = Path(__file__).parent / "corpus"
TARGETS = sorted(folder.name for folder in CORPUS.iterdir())


@pytest.mark.parametrize("target", TARGETS)
def test_inputs_to_start_from_are_taken(target):
    module = import_module(f"tests.fuzz.{target}")
    seeds = module.seeds()

    assert len(seeds) > 5
    for seed in seeds:
        module.one_input(seed)


@pytest.mark.parametrize("path", sorted(CORPUS.glob("*/*")), ids=lambda path: f"{path.parent.name}-{path.name}")
def test_inputs_once_found_are_mended(path):
    import_module(f"tests.fuzz.{path.parent.name}").one_input(path.read_bytes())
