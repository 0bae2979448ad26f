"""What can go wrong in a replay, by whose fault.

LoadTestError
+-- DataError        a data file is missing or is not what it should be
+-- ServiceError     the service refused a call or could not be reached for too long
+-- ClientLimitError the load client itself ran out of something (ports, connections, files)
"""

from __future__ import annotations


class LoadTestError(Exception):
    """Base of everything a command reports in one sentence and a non-zero exit."""


class DataError(LoadTestError):
    """A data file is missing, unreadable or not of the expected layout; the text says where."""


class ServiceError(LoadTestError):
    """The service refused a call, answered nonsense, or stayed away longer than the retry budget."""


class ClientLimitError(LoadTestError):
    """The client failed before the service could: not the service's fault, and the run doesn't count."""
