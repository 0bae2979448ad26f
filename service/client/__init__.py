"""The Python client. Needs httpx alone, and imports nothing else of the project.

``Bandits`` blocks and ``AsyncBandits`` is awaited; the former is made from the latter, by a command that the file
names.
"""

from __future__ import annotations

from .awaited import AsyncBandits, AsyncSession, AsyncSessions
from .blocking import Bandits, Session, Sessions
from .calls import (
    Action,
    ApiError,
    AuthenticationError,
    BadAnswerError,
    BanditsError,
    ClosedError,
    ConflictError,
    IdempotencyConflictError,
    InternalError,
    InvalidRequestError,
    NoAnswerError,
    NoEligibleArmError,
    NotFoundError,
    PermissionDeniedError,
    QueueFullError,
    SessionExistsError,
    SessionView,
    Settlement,
    SurplusFeedbackError,
    UnavailableError,
    UnknownSegmentError,
    UnknownSessionError,
)
from .reporter import ReportCounts, ReportError, ReportRules

__all__ = [
    "Action",
    "ApiError",
    "AsyncBandits",
    "AsyncSession",
    "AsyncSessions",
    "AuthenticationError",
    "BadAnswerError",
    "Bandits",
    "BanditsError",
    "ClosedError",
    "ConflictError",
    "IdempotencyConflictError",
    "InternalError",
    "InvalidRequestError",
    "NoAnswerError",
    "NoEligibleArmError",
    "NotFoundError",
    "PermissionDeniedError",
    "QueueFullError",
    "ReportCounts",
    "ReportError",
    "ReportRules",
    "Session",
    "SessionExistsError",
    "SessionView",
    "Sessions",
    "Settlement",
    "SurplusFeedbackError",
    "UnavailableError",
    "UnknownSegmentError",
    "UnknownSessionError",
]
