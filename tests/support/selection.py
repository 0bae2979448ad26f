"""Which tests run, and on how many processes.

The quick ones by default, all of them with ``pytest --all``. With ``pytest --rest`` all but the quick ones: one
parameter of each, on redis-server if it takes seconds and may use it, those of the store on both; and as few
examples as quick runs try. Recipes run only if they are named, by file or by ``-m recipes``.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.support.examples import FULL, QUICK
from tests.support.programs import program

PARAMETERS = 3
"""Of each test, in a quick run."""
REST_PARAMETERS = 1
"""Of each test, with ``--rest``, besides those of a quick run."""
SLOW = frozenset({"processes", "slow", "alone"})
WHOLE = ("tests/docs/", "tests/packaging/", "tests/test_")
"""What these check of each file takes no time."""
HEADER = "quick tests and one of each real kind; `pytest --all` runs all"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--all", action="store_true", help="run all tests, also those that are not quick")
    parser.addoption(
        "--rest", action="store_true", help="run the tests that are not quick, with few parameters of each"
    )


def pytest_configure(config: pytest.Config) -> None:
    settings.load_profile(QUICK if is_quick(config) or config.option.rest else FULL)


def pytest_report_header(config: pytest.Config) -> str:
    if config.option.rest:
        return "the tests that are not quick"
    return HEADER if is_quick(config) else "all tests of this selection, also slow ones"


def is_quick(config: pytest.Config) -> bool:
    """Whether slow tests are left out: not with ``--all``, ``--rest`` or ``-m``, nor where files are named."""
    return not (config.option.all or config.option.rest or config.option.markexpr or names_files(config))


def names_files(config: pytest.Config) -> bool:
    """Whether the command line names test files, or tests in them, and no folder."""
    return all(Path(each.split("::")[0]).suffix == ".py" for each in config.args)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Choose among what ``-k`` has left, so that it finds each parameter."""
    chosen = items
    if not (names_files(config) or "recipes" in config.option.markexpr):
        chosen = [item for item in items if item.get_closest_marker("recipes") is None]
    if is_quick(config) or config.option.rest:
        quick = set(sample(filter(belongs_to_quick, chosen), PARAMETERS))
        running = rest_of(chosen, quick) if config.option.rest else quick
        chosen = [item for item in chosen if item in running]
    if len(chosen) == len(items):
        return
    kept = set(chosen)
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = chosen


def markers_of(item: pytest.Item) -> set[str]:
    """Names of the markers of a test."""
    return {marker.name for marker in item.iter_markers()}


def belongs_to_quick(item: pytest.Item) -> bool:
    """Whether a test needs nothing but Python and the wheel's server, and is fast or one of its kind."""
    markers = markers_of(item)
    return "servers" not in markers and ("quick" in markers or not markers & SLOW)


def rest_of(items: Iterable[pytest.Item], quick: set[pytest.Item]) -> set[pytest.Item]:
    """Return what CI runs after the quick tests: a few parameters of each other test."""
    left = [(item, markers_of(item)) for item in items if item not in quick]
    fast = [item for item, markers in left if not markers & SLOW]
    on_redis = [item for item, markers in left if markers & SLOW and "servers" in markers]
    tried = {_function(item) for item in on_redis if not item.nodeid.startswith("tests/store/")}
    others = [item for item, markers in left if markers & SLOW and "servers" not in markers]
    others = [item for item in others if _function(item) not in tried]
    return {*sample(fast, REST_PARAMETERS), *sample(on_redis, 1), *sample(others, 1)}


def _function(item: pytest.Item) -> str:
    return item.nodeid.split("[")[0]


def sample(items: Iterable[pytest.Item], parameters: int) -> Iterator[pytest.Item]:
    """Leave out parameters of tests that have more than ``parameters``; those kept are spread evenly."""
    by_function: dict[str, list[pytest.Item]] = {}
    for item in items:
        by_function.setdefault(_function(item), []).append(item)
    for name, found in by_function.items():
        most = len(found) if name.startswith(WHOLE) else parameters
        step = max(len(found) / most, 1)
        yield from (found[int(number * step)] for number in range(min(most, len(found))))


def pytest_runtest_setup(item: pytest.Item) -> None:
    for marker in item.iter_markers("servers"):
        for name in marker.args:
            program(name)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """No process beside this one for named files, which start sooner so; else what xdist finds."""
    return 0 if names_files(config) else None
