"""How many examples hypothesis makes: a fifth of them in quick runs, by a profile that ``selection`` chooses."""

from __future__ import annotations

from hypothesis import settings

QUICK = "quick tests"
FULL = "all tests"
settings.register_profile(QUICK, max_examples=20, deadline=None)
settings.register_profile(FULL, max_examples=100, deadline=None)


def examples(full: int) -> int:
    """How many examples a test makes that makes ``full`` of them where all tests run."""
    return max(full // 5, 3) if settings.get_current_profile_name() == QUICK else full
