"""A session as bytes: its state, its records, and whether they fit each other.

Imports ``engine``, ``learners`` and the contract of stores.
"""
