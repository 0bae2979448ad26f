"""Tests, and in ``support`` what several of them need: its assertions tell values as those of tests do."""

import pytest

pytest.register_assert_rewrite("tests.support")
