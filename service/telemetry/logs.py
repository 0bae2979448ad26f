"""One JSON line per record on stderr, bounded, escaped, and without passwords of store URLs."""

import json
import logging
import re
import sys
import threading
from collections.abc import Iterable, Sequence
from contextvars import Context, ContextVar
from datetime import UTC, datetime
from types import TracebackType

SERVICE = "service"
"""First part of the service's logger names in the log, also if the package is installed under another name."""
_PACKAGE = __name__.partition(".")[0]

MAX_CHARS = 8000
"""Longest text of one record, traceback included; the rest is cut."""

MAX_FIELD_CHARS = 128
"""Longest text from a request in its log line."""

MAX_REASON_CHARS = 200
"""Longest reason of an error in its request's log line."""

# Names under which a request carries, in its ASGI scope, what its log line and others need.
ID_IN_SCOPE = "bandit.request_id"
"""The id of the request, as bytes."""
KEY_IN_SCOPE = "bandit.api_key"
"""The API key of the request; it is not there where the service has no keys."""
ERROR_IN_SCOPE = "bandit.error"
"""The error that the request was answered with, if any."""
WAITED = "bandit.waited"
"""Seconds for which a request has waited for the worker that owns its session; there only if it was handed over."""
PART = "bandit.part"
"""Of a call that is one session's part of another: the session, and the digests of its key, if there is one."""
OWNED = "bandit.owned"
"""The session that a call's body names, if it names one alone: its owner carries the call out."""
NOTED_IN_SCOPE = "bandit.noted"
"""Fields of the log line that the body told: ``session`` and ``changed``, those that it did."""
IS_GONE, LEFT = "bandit.is_gone", "bandit.left"
"""Among the extensions of the scope: a function that says whether the client has left, and a future that is done
once it has, or sends nothing more. Not every server sets them."""

_requests = logging.getLogger(f"{_PACKAGE}.requests")
_SECRETS = (
    ("://", re.compile(r"([A-Za-z][A-Za-z0-9+.-]{0,31}://)\S*@"), r"\1***@"),
    ("password=", re.compile(r"(password=)[^\s&]+"), r"\1***"),
    ("with args beginning with:", re.compile(r"(with args beginning with:).+"), r"\1 ***"),
)
"""Passwords before the ``@`` of a URL, among its options, and in a server's error about an unknown command.

Before each stands what a text with one has in it, which is looked for first: few texts have any.
"""


def hide_passwords(text: str) -> str:
    """Replace each part of the text that may be a password by ``***``."""
    for sign, secret, shown in _SECRETS:
        if sign in text:
            text = secret.sub(shown, text)
    return text


class JsonLines(logging.Formatter):
    """Formats a record as one line of ASCII JSON."""

    def format(self, record: logging.LogRecord) -> str:
        package, dot, rest = record.name.partition(".")
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": f"{SERVICE}{dot}{rest}" if package == _PACKAGE else record.name,
            "pid": record.process,
            "message": hide_passwords(record.getMessage()[: 2 * MAX_CHARS])[:MAX_CHARS],
        }
        line |= getattr(record, "fields", {})
        if record.exc_info:
            # The end of a traceback has the error itself.
            traceback = self.formatException(record.exc_info)
            line["exception"] = hide_passwords(traceback[-2 * MAX_CHARS :])[-MAX_CHARS:]
        return json.dumps(line)


def shown(text: str | None, most: int = MAX_FIELD_CHARS) -> str | None:
    """Return a text of a request as its log line shows it, cut and without passwords; None stays None."""
    return None if text is None else hide_passwords(text[: 2 * most])[:most]


_TRACE = re.compile(rb"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}(-.*)?", re.DOTALL)
"""A ``traceparent``: https://www.w3.org/TR/trace-context. Later versions may add parts."""


def trace_id(headers: Iterable[tuple[bytes, bytes]]) -> str | None:
    """Return the trace that the client is in, by its ``traceparent``."""
    for name, value in headers:
        if name == b"traceparent" and (found := _TRACE.fullmatch(value)) and found[1].strip(b"0"):
            return found[1].decode("ascii")
    return None


def request(*, status: int, **fields: str | float | Sequence[str] | None) -> None:
    """Log one request, at level info, or warning if the status is 500 or above.

    Parameters
    ----------
    status : of HTTP
    fields : of its line; those that are None are left out. Texts of the request are as ``shown`` returns them
    """
    level = logging.INFO if status < 500 else logging.WARNING
    if _requests.isEnabledFor(level):
        line = {name: value for name, value in fields.items() if value is not None} | {"status": status}
        _requests.log(level, "request", extra={"fields": line})


def configure(level: str) -> None:
    """Send every logger of this process to stderr; uvicorn's progress only at level ``debug``.

    Uncaught errors are logged too, because their text may contain a store URL, and log lines hide its password.
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
    logging.getLogger(_PACKAGE).critical("uncaught", exc_info=(kind, error or kind(), traceback))


# -- The requests that wait for the current call to the store: one commit serves a batch of requests.

BATCH_CONTEXTS: ContextVar[Sequence[Context]] = ContextVar("batch_contexts", default=())
"""Contexts of the requests in the batch being committed; empty if a call, or a commit, is of one request."""
