"""Errors that a command reports as one sentence; the class says where the cause lies.

LoadTestError
+-- DataError        a data file is missing or is not what it should be
+-- ServiceError     the service refused a call or could not be reached for too long
+-- ClientLimitError the load client itself ran out of something (ports, connections, files)
"""

from __future__ import annotations


class LoadTestError(Exception):
    """Base of the errors that a command prints before it exits with code 1."""


class DataError(LoadTestError):
    """A data file is missing, unreadable or has another layout; the text names file, row and column."""


class ServiceError(LoadTestError):
    """The service refused a call, sent an invalid answer, or was unreachable for longer than calls are repeated."""


class ClientLimitError(LoadTestError):
    """The load client ran out of ports, files or buffers; the result says nothing about the service."""
