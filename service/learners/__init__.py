"""The learners by their kinds. Imports nothing else of the project.

docs/adding-a-learner.md says how a learner is added.
"""

from __future__ import annotations

from .base import Spec
from .batched_exp3 import BatchedExp3Spec
from .bold import BoldSpec
from .centred_tsallis import CentredTsallisSpec
from .clw import ClwMbcoSpec, ClwSpec
from .dbgd import DbgdSpec
from .dexp3 import Dexp3Spec
from .exp3 import Exp3CurrentSpec, Exp3Spec, SolidSpec
from .fixed import FixedSpec
from .multiscale_tsallis import MultiscaleTsallisSpec
from .ogd import MbcoSpec, OgdSpec
from .tsallis_delayed import TsallisDelayedSpec

REGISTRY: dict[str, type[Spec]] = {
    "dexp3": Dexp3Spec,
    "dbgd": DbgdSpec,
    "multiscale_tsallis": MultiscaleTsallisSpec,
    "centred_tsallis": CentredTsallisSpec,
    "exp3": Exp3Spec,
    "exp3_current": Exp3CurrentSpec,
    "bold": BoldSpec,
    "clw": ClwSpec,
    "batched_exp3": BatchedExp3Spec,
    "tsallis_delayed": TsallisDelayedSpec,
    "ogd": OgdSpec,
    "solid": SolidSpec,
    "mbco": MbcoSpec,
    "clw_mbco": ClwMbcoSpec,
    "fixed": FixedSpec,
}
"""Kind to class of specification; its ``build`` makes the learner."""
