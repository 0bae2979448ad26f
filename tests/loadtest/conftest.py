import os
from pathlib import Path

import pytest

from tests.support.running import RunningService

JESTER = "jester-data-1.csv.gz"
YACHT = "yacht_hydrodynamics.data"


def _real(name: str) -> Path:
    given = os.environ.get("BANDIT_TEST_DATA")
    folder = Path(given) if given else Path(__file__).parents[2].parent / "shared" / "data"
    path = folder / name
    if not path.is_file():
        pytest.skip(f"needs {name}: set BANDIT_TEST_DATA to the folder that holds it")
    return path


@pytest.fixture(scope="session")
def real_jester() -> Path:
    """The real ratings, which the project doesn't ship."""
    return _real(JESTER)


@pytest.fixture(scope="session")
def real_yacht() -> Path:
    return _real(YACHT)


@pytest.fixture(scope="session")
def url(service: RunningService) -> str:
    """The service that replays over HTTP play against."""
    return service.url
