"""Whether requests are traced: OpenTelemetry's environment variables decide it; the extra ``otel`` is needed.

See docs/traces.md. Without the variables OpenTelemetry's SDK is not imported.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, MutableMapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

from ..settings import read_secret

if TYPE_CHECKING:
    from .tracing import Spans

EXPORTER = "OTEL_TRACES_EXPORTER"
_OTLP = "OTEL_EXPORTER_OTLP"
PACKAGE = "opentelemetry-exporter-otlp-proto-http"
PROTOCOL = "http/protobuf"

log = logging.getLogger(__name__)


def is_requested(environment: Mapping[str, str]) -> bool:
    """Return whether the variables turn traces on, by an exporter or an endpoint."""
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    exporter = environment.get(EXPORTER, "").strip().lower()
    return exporter != "none" if exporter else _given(environment, "ENDPOINT") is not None


def why_not(environment: Mapping[str, str]) -> str | None:
    """Return why the requested traces are not possible, or None if they are."""
    if environment.get(EXPORTER, "").strip().lower() not in {"", "otlp"}:
        return f"{EXPORTER} may be otlp or none"
    if (_given(environment, "PROTOCOL") or PROTOCOL) != PROTOCOL:
        return f"{_OTLP}_PROTOCOL may be {PROTOCOL}"
    try:
        version(PACKAGE)
    except PackageNotFoundError:
        return "install the extra otel"
    return None


def _given(environment: Mapping[str, str], what: str) -> str | None:
    """Return the exporter's variable for traces if it is set, else the one for all signals."""
    return environment.get(f"{_OTLP}_TRACES_{what}") or environment.get(f"{_OTLP}_{what}") or None


def open_traces(environment: MutableMapping[str, str] = os.environ) -> Spans | None:
    """Return the spans of this process, or None if traces are not requested or not possible.

    The exporter's headers are set to those that stand in files.
    """
    if not is_requested(environment) or why_not(environment) is not None:
        return None
    for name in (f"{_OTLP}_HEADERS", f"{_OTLP}_TRACES_HEADERS"):
        if file := environment.get(f"{name}_FILE"):
            try:
                environment[name] = read_secret(Path(file))
            except ValueError as error:
                log.warning("no traces: %s_FILE %s", name, error)
                return None
    from .tracing import Spans

    try:
        return Spans.to_collector()
    except ValueError:
        log.warning("no traces: a variable of OpenTelemetry (OTEL_...) is invalid")
        return None
