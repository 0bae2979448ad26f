"""The service that replays over HTTP play against."""

from __future__ import annotations

import pytest

from tests.support.running import RunningService


@pytest.fixture(scope="module")
def url(service: RunningService) -> str:
    return service.url
