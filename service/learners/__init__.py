"""The learners by their kinds. Imports nothing else of the project.

docs/adding-a-learner.md says how a learner is added.
"""

from collections.abc import Sequence

from .base import Spec
from .centred_tsallis import CentredTsallisSpec
from .clw import ClwMbcoSpec, ClwSpec
from .descent import DbgdSpec, MbcoSpec, OgdSpec, SolidSpec
from .dexp3 import Dexp3Spec
from .exp3 import BatchedExp3Spec, BoldSpec, Exp3CurrentSpec, Exp3Spec
from .fixed import FixedSpec
from .multiscale_tsallis import MultiscaleTsallisSpec
from .tsallis_delayed import TsallisDelayedSpec

SPECS: Sequence[type[Spec]] = (
    *(Dexp3Spec, DbgdSpec, MultiscaleTsallisSpec, CentredTsallisSpec, Exp3Spec, Exp3CurrentSpec, BoldSpec, ClwSpec),
    *(BatchedExp3Spec, TsallisDelayedSpec, OgdSpec, SolidSpec, MbcoSpec, ClwMbcoSpec, FixedSpec),
)
REGISTRY: dict[str, type[Spec]] = {spec.model_fields["kind"].default: spec for spec in SPECS}
"""Kind to class of specification; its ``build`` makes the learner."""
