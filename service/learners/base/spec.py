"""A learner's parameters as a client posts them."""

from __future__ import annotations

from typing import Any, ClassVar

from ..posted import Posted
from .learner import Learner


class Spec(Posted):
    """A learner's parameters as a client posts them; unknown fields and loose types are refused."""

    kind: str
    takes_initial: ClassVar[bool] = False
    """Whether its learner can begin with means of arms."""
    takes_provisional: ClassVar[bool] = False
    """Whether the learner is a ``ProvisionalLearner``."""
    takes_segments: ClassVar[bool] = False
    """Whether the learner can be the global part of segments; it is a ``PooledLearner`` then."""

    @property
    def size(self) -> int:
        """Number of arms at the start of the session, or of dimensions."""
        raise NotImplementedError

    def build(self) -> Learner[Any]:
        """Make the learner with these parameters."""
        raise NotImplementedError

    def resolved(self) -> dict[str, Any]:
        """Return every field by name, as JSON has it, with the default where the client left one out."""
        fields = type(self).model_fields  # Cached properties stand beside the fields.
        return {name: value for name, value in vars(self).items() if name in fields}
