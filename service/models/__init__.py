"""What clients post, checked: specifications of sessions, events, idempotency keys.

Imports ``engine``, ``learners`` and leaves.
"""
