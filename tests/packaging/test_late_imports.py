"""What the application imports only where it is used."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize("package", ["redis", "opentelemetry.sdk", "httpx", "pydantic_settings", "rich"])
def test_the_application_does_not_import(package):
    code = f"import sys, service.app; sys.exit({package!r} in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("package", ["redis", "fastapi", "numpy", "prometheus_client"])
def test_the_supervisor_does_not_import(package):
    """It reads settings and starts processes; a plain store URL is checked without the store."""
    code = (
        "import sys, service.server.cli as cli; from service.settings import Settings; "
        "cli.start_store(Settings(store_url='redis://user:password@host:6379/0')); "
        f"sys.exit({package!r} in sys.modules)"
    )

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
