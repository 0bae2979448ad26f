"""Why a store does not do what it is asked."""

from __future__ import annotations

from ...errors import StoreUnavailableError as StoreUnavailableError

NO_CONNECTION = "no connection to the store"
"""How the text begins where no server listens at the store's address."""


class StoreFullError(StoreUnavailableError):
    """The store has no room for what was to be written, in memory or on its disk."""


class WrongTypeError(StoreUnavailableError):
    """A key is of another type than any call makes it: somebody changed it by hand."""


class KeysApartError(StoreUnavailableError):
    """The server is one of a cluster, where a call may not name keys of several hash slots: it did nothing."""
