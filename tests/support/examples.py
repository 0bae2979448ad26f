"""How much quick runs try: a fifth of hypothesis' examples, and a few of many parameters.

``selection`` chooses the profile.
"""

from collections.abc import Collection, Iterable
from typing import Any

import pytest
from hypothesis import settings

QUICK = "quick tests"
FULL = "all tests"
settings.register_profile(QUICK, max_examples=20, deadline=None)
settings.register_profile(FULL, max_examples=100, deadline=None)


def examples(full: int) -> int:
    """How many examples a test makes that makes ``full`` of them where all tests run."""
    return max(full // 5, 3) if settings.get_current_profile_name() == QUICK else full


def some_quick(values: Iterable[Any], quick: Collection[Any]) -> list[Any]:
    """Parameters of a test, those that are not among ``quick`` marked as slow."""
    return [pytest.param(value, marks=[] if value in quick else [pytest.mark.slow]) for value in values]
