"""Settling a batch of events: they are parsed, judged and settled."""

from .settle import SettleFeedback

__all__ = ["SettleFeedback"]
