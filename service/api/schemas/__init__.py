"""Bodies and answers of the HTTP interface."""

from __future__ import annotations

from .bodies import Act, Acts, ChangeArms, ChangeSession, CreateSession, Feedbacks, ReplaceArms
from .pages import ArmPage, DecisionPage, History, SegmentPage
from .sessions import KeyView, SessionList, SessionView
from .slots import Action, Actions, Settlement
from .transfer import ExportedSession

__all__ = [
    "Act",
    "Action",
    "Actions",
    "Acts",
    "ArmPage",
    "ChangeArms",
    "ChangeSession",
    "CreateSession",
    "DecisionPage",
    "ExportedSession",
    "Feedbacks",
    "History",
    "KeyView",
    "ReplaceArms",
    "SegmentPage",
    "SessionList",
    "SessionView",
    "Settlement",
]
