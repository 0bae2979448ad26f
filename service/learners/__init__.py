"""The learners, each by its kind. Adding one is one file, one line here, and one vector file."""

from __future__ import annotations

from service.learners.base import Spec
from service.learners.bold import BoldSpec
from service.learners.centred_tsallis import CentredTsallisSpec
from service.learners.clw import ClwSpec
from service.learners.clw_mbco import ClwMbcoSpec
from service.learners.dbgd import DbgdSpec
from service.learners.dexp3 import Dexp3Spec
from service.learners.exp3 import Exp3Spec
from service.learners.exp3_current import Exp3CurrentSpec
from service.learners.mbco import MbcoSpec
from service.learners.ogd import OgdSpec
from service.learners.solid import SolidSpec

REGISTRY: dict[str, type[Spec]] = {
    "dexp3": Dexp3Spec,
    "dbgd": DbgdSpec,
    "centred_tsallis": CentredTsallisSpec,
    "exp3": Exp3Spec,
    "exp3_current": Exp3CurrentSpec,
    "bold": BoldSpec,
    "clw": ClwSpec,
    "ogd": OgdSpec,
    "solid": SolidSpec,
    "mbco": MbcoSpec,
    "clw_mbco": ClwMbcoSpec,
}
"""Kind to specification; ``Spec.build`` gives the arithmetic."""
