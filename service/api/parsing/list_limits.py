"""Lists that are too long are found before they are validated: validating them keeps all other requests waiting."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...errors import InvalidRequestError
from ...settings import Settings


def check_lengths(body: Mapping[str, Any], settings: Settings) -> None:
    """Refuse a body with a list that is longer than the settings allow.

    Parameters
    ----------
    body : as it was parsed, not validated yet
    settings : of the service: most events of a batch, and largest dimension

    Raises
    ------
    InvalidRequestError
    """
    dim = settings.max_dim
    values = {"losses": dim + 1, "gradient": dim}
    _check(body, {"events": settings.max_events, **values})
    if isinstance(events := body.get("events"), list):
        for index, event in enumerate(events):
            _check(event, values, index=index)
    if "learner" in body:
        feasible_set = _inner(body["learner"], "feasible_set")
        _check(feasible_set, {"center": dim, "lower": dim, "upper": dim}, "learner.feasible_set.")


def _check(value: Any, limits: Mapping[str, int], place: str = "", index: int | None = None) -> None:
    for name, limit in limits.items():
        listed = _inner(value, name)
        if isinstance(listed, list) and len(listed) > limit:
            raise InvalidRequestError.of(place + name, f"at most {limit} in one call", index)


def _inner(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, dict) else None
