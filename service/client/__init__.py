"""The Python client. Needs httpx alone, and imports nothing else of the project.

``Bandits`` blocks and ``AsyncBandits`` is awaited; the former is made from the latter, by a command that the file
names.
"""

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

__all__ = ["AsyncBandits", "AsyncSession", "AsyncSessions", "Bandits", "Session", "Sessions"]
__all__ += ["Action", "ReportCounts", "ReportError", "ReportRules", "SessionView", "Settlement"]
__all__ += ["ApiError", "BadAnswerError", "BanditsError", "ClosedError", "NoAnswerError", "QueueFullError"]
__all__ += ["AuthenticationError", "InternalError", "InvalidRequestError", "PermissionDeniedError"]
__all__ += ["NotFoundError", "UnavailableError", "UnknownSegmentError", "UnknownSessionError"]
__all__ += ["ConflictError", "IdempotencyConflictError", "NoEligibleArmError", "SessionExistsError"]
__all__ += ["SurplusFeedbackError"]
