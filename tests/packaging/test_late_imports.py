"""What the application imports only where it is used."""

from __future__ import annotations

import subprocess
import sys


def imported_by(code):
    """The names of the modules that a new process has after some code."""
    code = f"import sys; {code}; print(*sys.modules)"
    return set(
        subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    )


def test_the_application_does_not_import_what_only_some_services_need():
    imported = imported_by("import service.app")

    assert "fastapi" in imported
    assert not imported & {"redis", "opentelemetry.sdk", "httpx", "pydantic_settings", "rich"}
    assert "pydantic.v1" not in imported  # FastAPI imports it where it describes a route.


def test_the_supervisor_imports_little():
    """It reads settings and starts processes; a plain store URL is checked without the store."""
    imported = imported_by(
        "import service.server.cli as cli; from service.settings import Settings; "
        "cli.start_store(Settings(store_url='redis://user:password@host:6379/0'))"
    )

    assert "pydantic" in imported
    assert not imported & {"redis", "fastapi", "numpy", "prometheus_client"}
