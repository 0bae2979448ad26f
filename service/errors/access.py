"""Requests that the service does not serve for who sends them."""

from __future__ import annotations

from .base import ServiceError


class UnauthorizedError(ServiceError):
    """The request carries no valid API key."""

    status, code, title = 401, "unauthorized", "A valid API key is needed"

    @classmethod
    def of(cls, found: str) -> UnauthorizedError:
        """Make the error for what the request has in place of one valid key; its text names the headers.

        Parameters
        ----------
        found : a clause, such as ``and the request has none``
        """
        return cls(f"{cls.title}, {found}: send it as `X-API-Key: <key>` or as `Authorization: Bearer <key>`")


class ForbiddenError(ServiceError):
    """The API key does not allow this."""

    status, code, title = 403, "forbidden", "The API key does not allow this"


class CrossSiteError(ServiceError):
    """A page of another site sent the request, and this service has no API keys."""

    status, code, title = 403, "cross_site", "The request comes from a page of another site"

    def __init__(self) -> None:
        super().__init__(
            "A service without API keys serves no requests of other sites' pages: add the page's origin to "
            "BANDIT_ALLOWED_ORIGINS, or use API keys"
        )


class ForeignHostError(ServiceError):
    """The request's host is no local name, and this service has no API keys."""

    status, code, title = 421, "foreign_host", "The request's host is no local name"

    def __init__(self) -> None:
        super().__init__(
            "A service without API keys serves local names only: add the host to BANDIT_ALLOWED_HOSTS, or use "
            "API keys"
        )
