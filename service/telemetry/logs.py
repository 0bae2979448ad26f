"""One JSON line per record on stderr, bounded, escaped, and without passwords of store URLs."""

from __future__ import annotations

import json
import logging
import re
import sys
import threading
from datetime import UTC, datetime
from types import TracebackType

MAX_CHARS = 8000
"""Longest text of one record, traceback included; the rest is cut."""

MAX_FIELD_CHARS = 128
"""Longest text that a request may bring into its line."""

_requests = logging.getLogger("service.requests")
_SECRETS = (
    (re.compile(r"([A-Za-z][A-Za-z0-9+.-]{0,31}://)\S*@"), r"\1***@"),
    (re.compile(r"(password=)[^\s&]+"), r"\1***"),
    (re.compile(r"(with args beginning with:).+"), r"\1 ***"),
)
"""Before the ``@`` of a URL, among its options, and in what a server tells of a command that it doesn't know."""


def hide_passwords(text: str) -> str:
    """The text with whatever may be a password replaced."""
    for secret, shown in _SECRETS:
        text = secret.sub(shown, text)
    return text


def _tail(text: str) -> str:
    """The end of a traceback."""
    return hide_passwords(text[-2 * MAX_CHARS :])[-MAX_CHARS:]


class JsonLines(logging.Formatter):
    """A record as one line of ASCII JSON."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "pid": record.process,
            "message": hide_passwords(record.getMessage()[: 2 * MAX_CHARS])[:MAX_CHARS],
        }
        line |= getattr(record, "fields", {})
        if record.exc_info:
            line["exception"] = _tail(self.formatException(record.exc_info))
        return json.dumps(line)


def shown(text: str | None) -> str | None:
    """A text of a request as its line tells it; None where there is none."""
    return None if text is None else hide_passwords(text[: 2 * MAX_FIELD_CHARS])[:MAX_FIELD_CHARS]


def request(*, status: int, session: str | None, api_key: str | None, **fields: str | float) -> None:
    """Log one request; session (as ``shown``) and name of the API key only where there are any."""
    level = logging.INFO if status < 500 else logging.WARNING
    if not _requests.isEnabledFor(level):
        return
    told = fields | {"status": status}
    if session is not None:
        told["session"] = session
    if api_key is not None:
        told["api_key"] = api_key
    _requests.log(level, "request", extra={"fields": told})


def configure(level: str) -> None:
    """Send every logger of this process to stderr; uvicorn's own progress only at level ``debug``.

    What nobody catches is logged too, as it may show a URL.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    logging.basicConfig(handlers=[handler], level=level.upper(), force=True)
    logging.getLogger("uvicorn").setLevel(logging.NOTSET if level == "debug" else logging.WARNING)
    logging.getLogger("asyncio").setLevel(logging.WARNING)
    logging.captureWarnings(capture=True)
    sys.excepthook = _log_uncaught
    sys.unraisablehook = lambda raised: _log_ignored(raised.exc_type, raised.exc_value, raised.exc_traceback)
    threading.excepthook = lambda ended: _log_ignored(ended.exc_type, ended.exc_value, ended.exc_traceback)


def _log_uncaught(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
    if issubclass(kind, Exception):
        _log_ignored(kind, error, traceback)
    else:
        sys.__excepthook__(kind, error, traceback)


def _log_ignored(kind: type[BaseException], error: BaseException | None, traceback: TracebackType | None) -> None:
    logging.getLogger("service").critical("uncaught", exc_info=(kind, error or kind(), traceback))
