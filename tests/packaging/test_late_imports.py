"""What the application imports only where it is used."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize("package", ["redis", "opentelemetry.sdk", "httpx", "pydantic_settings", "rich"])
def test_the_application_does_not_import(package):
    code = f"import sys, service.app; sys.exit({package!r} in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
