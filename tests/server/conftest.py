"""Services of one test."""

import contextlib

import pytest

from tests.support.running import RunningService


@pytest.fixture
def run(tmp_path):
    """Starts services in one folder and ends them."""
    with contextlib.ExitStack() as stack:
        yield lambda *flags, **options: stack.enter_context(RunningService(tmp_path, *flags, **options))
