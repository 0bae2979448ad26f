"""Bytes of what is kept beside a session's state: ``codec`` writes and reads all of it, the other files its parts.

Imports ``binary``, ``logs`` and ``state`` of the folder above.
"""

from __future__ import annotations

from .codec import Records, decode, dropped_act_times, encode, rows_of
from .record import record_of

__all__ = ["Records", "decode", "dropped_act_times", "encode", "record_of", "rows_of"]
