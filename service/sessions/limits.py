"""How large a session may be: by the settings, and by what an API key allows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ..cooperative import LABEL_BYTES
from ..errors import InvalidRequestError
from ..learners.base import Spec
from ..learners.specs import ArmsSpec, PointsSpec, named
from ..models.specification import Specification
from ..settings import Settings

LIVES = 10
"""A session may have had this many times the arms it may have at once: indexes and labels are kept for ever."""
MAX_OPEN_SLOTS = 1_000_000
"""Largest ``max_open_slots`` of a session."""


class Rights(NamedTuple):
    """What the holder of an API key may create; None for no limit but the settings'."""

    prefix: str = ""
    """The ids of its sessions begin with this."""
    max_sessions: int | None = None
    max_arms: int | None = None


ALL = Rights()


class ArmLimits(NamedTuple):
    """How many arms a session may have, and how long their labels may be."""

    at_once: int
    ever: int
    """Removed ones included."""
    label_bytes: int


class Limits:
    """The limits of this service."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    @property
    def max_label_bytes(self) -> int:
        """Most bytes of an arm's label, in UTF-8."""
        return self._settings.max_label_bytes

    def check(self, spec: Specification, rights: Rights) -> None:
        """Refuse a new session that would be too large.

        Parameters
        ----------
        spec : of the session to create
        rights : what the caller's API key allows, beside the settings

        Raises
        ------
        InvalidRequestError
            naming the field and its limit.
        """
        learner = spec.learner
        if isinstance(learner, ArmsSpec):
            self._check_arms(learner, rights)
        elif isinstance(learner, PointsSpec) and learner.dim > self._settings.max_dim:
            raise InvalidRequestError.of("learner.dim", f"must not exceed {self._settings.max_dim}")

    def _check_arms(self, learner: ArmsSpec, rights: Rights) -> None:
        most = self.max_arms(type(learner), rights)
        if learner.arm_count > most:
            raise InvalidRequestError.of("learner.n_arms", f"must not exceed {most}")
        if (ever := self._settings.max_arms_ever) is not None and learner.arm_count > ever:
            raise InvalidRequestError.of("learner.n_arms", f"must not exceed BANDIT_MAX_ARMS_EVER, which is {ever}")
        check_labels("learner.arms", learner.arms or (), self._settings.max_label_bytes)
        if learner.arm_count > learner.most_arms:
            raise InvalidRequestError.of(
                "learner.max_open_slots", f"with so many there may be at most {learner.most_arms} arms"
            )
        if (getattr(learner, "max_open_slots", None) or 0) > MAX_OPEN_SLOTS:
            raise InvalidRequestError.of("learner.max_open_slots", f"must not exceed {MAX_OPEN_SLOTS}")

    def arms_of(self, learner: Spec, rights: Rights) -> ArmLimits:
        """Return how many arms a session of this learner may have, none for a learner over points.

        Parameters
        ----------
        learner : the session's, as it was posted
        rights : what the caller's API key allows, beside the settings
        """
        if not isinstance(learner, ArmsSpec):
            return ArmLimits(0, 0, self.max_label_bytes)
        most, ever = min(self.max_arms(type(learner), rights), learner.most_arms), self._settings.max_arms_ever
        return ArmLimits(most, LIVES * most if ever is None else ever, self.max_label_bytes)

    def max_arms(self, spec: type[ArmsSpec], rights: Rights) -> int:
        """Return how many arms a session of any learner with this class of specification may have at once.

        Parameters
        ----------
        spec : names the setting that limits its arms
        rights : what the caller's API key allows, beside the settings
        """
        most: int = getattr(self._settings, spec.arms_setting)
        return most if rights.max_arms is None else min(most, rights.max_arms)


def check_labels(field: str, labels: Iterable[str], max_bytes: int) -> None:
    """Refuse labels that are too long.

    Parameters
    ----------
    field : of the request, named in the error with the label's index
    labels : of arms, in the order of the request
    max_bytes : of one label, in UTF-8

    Raises
    ------
    InvalidRequestError
        naming the first label that is too long.
    """
    for index, label in enumerate(labels):
        if (size := len(label.encode())) > max_bytes:
            message = f"a label has at most {max_bytes} bytes, and not {size}: {named(label)}"
            raise InvalidRequestError.of(f"{field}.{index}", message)


def label_bytes(spec: Specification) -> int:
    """Return how many bytes the labels of a new session count for where large work is done in a thread."""
    return LABEL_BYTES * len(getattr(spec.learner, "arms", None) or ())
