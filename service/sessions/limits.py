"""How large a session may be: by the settings, and by what an API key allows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from ..errors import InvalidRequestError
from ..learners.base import Spec
from ..learners.specs import ArmsSpec
from ..models.specification import Specification
from ..settings import Settings

MAX_OPEN_SLOTS = 1_000_000
"""Open slots that a session may keep."""


class Rights(NamedTuple):
    """What the holder of an API key may create."""

    prefix: str = ""
    """What the ids of its sessions begin with."""
    max_sessions: int | None = None
    max_arms: int | None = None


ALL = Rights()


class Limits:
    """The limits of this service."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    @property
    def max_label_bytes(self) -> int:
        """Length of an arm's label, in UTF-8."""
        return self._settings.max_label_bytes

    def check(self, spec: Specification, rights: Rights) -> None:
        """Refuse a new session that would be too large."""
        settings = self._settings
        learner = spec.learner
        size: Mapping[str, Any] = learner.model_dump(include={"n_arms", "arms", "dim", "max_open_slots"})
        labels = size.get("arms") or []
        n_arms = size.get("n_arms") or len(labels)
        most = self.max_arms(learner.kind, rights)
        if n_arms > most:
            raise InvalidRequestError.of("learner.n_arms", f"must not exceed {most}")
        if size.get("dim", 0) > settings.max_dim:
            raise InvalidRequestError.of("learner.dim", f"must not exceed {settings.max_dim}")
        check_labels("learner.arms", labels, settings.max_label_bytes)
        if isinstance(learner, ArmsSpec) and n_arms > learner.most_arms:
            raise InvalidRequestError.of(
                "learner.max_open_slots",
                f"with so many there may be at most {learner.most_arms} arms",
            )
        if (size.get("max_open_slots") or 0) > MAX_OPEN_SLOTS:
            raise InvalidRequestError.of("learner.max_open_slots", f"must not exceed {MAX_OPEN_SLOTS}")

    def arms_of(self, learner: Spec, rights: Rights) -> int:
        """Arms that a session of this learner may have at once."""
        most = self.max_arms(learner.kind, rights)
        return min(most, learner.most_arms) if isinstance(learner, ArmsSpec) else most

    def max_arms(self, kind: str, rights: Rights) -> int:
        """Arms that a session of any learner of this kind may have at once."""
        settings = self._settings
        most = settings.max_arms_centred if kind == "centred_tsallis" else settings.max_arms
        return most if rights.max_arms is None else min(most, rights.max_arms)


def check_labels(field: str, labels: Iterable[str], max_bytes: int) -> None:
    """Refuse labels that are too long."""
    if any(len(label.encode()) > max_bytes for label in labels):
        raise InvalidRequestError.of(field, f"a label has at most {max_bytes} bytes")
