"""Processes and connections: the command line, the supervisor, its workers, and what they accept as HTTP.

Imports ``app``, ``store``, ``api_keys`` and leaves.
"""
