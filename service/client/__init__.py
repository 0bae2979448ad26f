"""The Python client. Needs httpx alone, and imports nothing else of the project.

``Bandits`` blocks and ``AsyncBandits`` is awaited; the former is made from the latter, by a command that the file
names.
"""

from . import calls
from .awaited import AsyncBandits, AsyncSession, AsyncSessions
from .blocking import Bandits, Session, Sessions
from .calls import *  # noqa: F403 - its exceptions and what calls return
from .reporter import ReportCounts, ReportError, ReportRules

__all__ = ["AsyncBandits", "AsyncSession", "AsyncSessions", "Bandits", "Session", "Sessions"]
__all__ += ["ReportCounts", "ReportError", "ReportRules"]
__all__ += calls.__all__
