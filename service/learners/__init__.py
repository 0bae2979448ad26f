"""The learners, each by its kind. Adding one is one file, one line here, and one vector file."""

from __future__ import annotations

from service.learners.base import Spec
from service.learners.dbgd import DbgdSpec
from service.learners.dexp3 import Dexp3Spec

REGISTRY: dict[str, type[Spec]] = {
    "dexp3": Dexp3Spec,
    "dbgd": DbgdSpec,
}
"""Kind to specification; ``Spec.build`` gives the arithmetic."""
