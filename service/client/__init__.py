"""The Python client. Needs httpx alone, and imports nothing else of the project.

``Bandits`` blocks and ``AsyncBandits`` is awaited; what both call and how they read the answers is written once, in
``steps/``.
"""

from .answers import Action, SessionView, Settlement
from .awaited import AsyncBandits, AsyncSession, AsyncSessions
from .blocking import Bandits, Session, Sessions
from .errors import (
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
    SurplusFeedbackError,
    UnavailableError,
    UnknownSegmentError,
    UnknownSessionError,
)
from .report_queue import ReportCounts, ReportError, ReportRules

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
