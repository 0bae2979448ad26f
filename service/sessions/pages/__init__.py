"""Lists that are read a page at a time: sessions, arms of a session, entries of its decision log."""

from __future__ import annotations

MAX_PAGE = 1000
"""Rows on a page, at most."""
