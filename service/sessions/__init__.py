"""What can be asked of sessions: create, read, list, delete, and the operations on one of them.

Imports ``commit`` and what ``commit`` imports.
"""
