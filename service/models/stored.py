"""A session's specification as the store keeps it, with the seed in use, and its arms once they have changed."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise
from typing import Annotated, Any, NamedTuple

from pydantic import Field

from ..engine.arm_run import ArmRun, Arms
from ..engine.run import Run, start_run
from ..learners.base import Posted
from ..learners.specs import LabelText
from .specification import LAST_SECOND, Specification

LARGE_SPEC_BYTES = 2048
"""Encoded specifications from this size on are large in memory: labels take ten times their bytes."""
SEED_BITS = 128
"""Random bits of a seed that the client did not choose."""

_JSON = json.JSONEncoder(separators=(",", ":"))
_DEFAULTS = [(name, each.default) for name, each in Specification.model_fields.items() if name != "seed"]
_SEED = re.compile(rb',"seed":(0|[1-9][0-9]{0,38})\}\Z')
"""How ``Stored.encode`` ends."""

MAX_PATHS = 5
"""Paths named within one field that differs."""


class Difference(NamedTuple):
    """A field that is another in a session than in what was posted again."""

    field: str
    message: str
    paths: Sequence[str]
    """Of what differs within the field, or the field itself."""


class Stored(NamedTuple):
    """A specification with the seed in use."""

    specification: Specification
    seed: int
    arms: Arms | None = None
    """None if these are still those of the specification. They are written here, and not in each state."""
    tokens_from: float = 0.0
    """Unix seconds. Tokens of acts before have ended: their window had, when the session got another one."""

    @classmethod
    def of(cls, specification: Specification) -> Stored:
        """Choose a random seed where the client gave none, and decide whether a default is provisional."""
        given = specification.seed
        return cls(specification.decided(), secrets.randbits(SEED_BITS) if given is None else given)

    def encode(self) -> bytes:
        """Return the bytes that the store keeps: what differs from the defaults, and the seed, which comes last."""
        spec = self.specification
        values = vars(spec)
        given = {name for name, default in _DEFAULTS if values[name] != default}
        fields = spec.model_dump_json(include=given, exclude_none=True).encode()
        arms = {} if self.arms is None else {"arms": _arms_fields(self.arms, self.specification)}
        ended = {"tokens_from": self.tokens_from} if self.tokens_from else {}
        order = {} if spec.features is None else {"features": list(spec.features)}
        beside = _JSON.encode({**arms, **ended, **order, "seed": self.seed}).encode()
        return b'{"specification":%b,%b' % (fields, beside[1:])

    def differing(self, posted: Specification) -> Sequence[Difference]:
        """Return what differs from a specification posted again; an omitted seed matches any."""
        posted = posted.decided()
        own, others, word = _fields(self.specification), _fields(posted), self.specification.word
        names = [name for name, value in own.items() if value != others[name]]
        found = list[Difference]()
        if word != posted.word:
            names = [name for name in names if name not in ("loss_range", "reward_range")]
            name = f"{posted.word}_range"
            found.append(Difference(name, f"the session was created with {word}_range", (name,)))
        if posted.seed not in (None, self.seed):
            names.append("seed")
        return [Difference(name, _OTHER, _paths(name, own.get(name), others.get(name))) for name in names] + found

    def start(self) -> Run:
        """Start the run before its first slot."""
        run = start_run(self.specification.params(self.seed))
        return replace(run, arms=self.arms) if isinstance(run, ArmRun) and self.arms is not None else run


_OTHER = "is another in the session"


def _paths(name: str, own: Any, other: Any) -> Sequence[str]:
    """Return the paths of what differs within a field; the field itself where it is no object in both."""
    if not isinstance(own, Mapping) or not isinstance(other, Mapping):
        return (name,)
    inner = [key for key in own.keys() | other.keys() if own.get(key) != other.get(key)]
    return [f"{name}.{key}" for key in (["kind"] if "kind" in inner else sorted(inner)[:MAX_PATHS])]


class _ArmsFields(Posted):
    """The arms of a session: how many there ever were, indexes of live and paused ones, and labels."""

    size: Annotated[int, Field(lt=2**32)]
    """The head of a state has room for no larger one."""
    live: list[int]
    paused: list[int]
    added: list[LabelText]
    """Of live arms that came after the start; the specification has those of the others."""


class _StoredFields(Posted):
    """What ``Stored.encode`` writes."""

    specification: Specification
    arms: _ArmsFields | None = None
    tokens_from: Annotated[float, Field(ge=0, le=LAST_SECOND)] = 0.0
    features: list[str] = []
    """Names of features in the order of their columns: a document that is sorted does not keep that of names."""
    seed: Annotated[int, Field(ge=0, lt=2**SEED_BITS)]


def _arms_fields(arms: Arms, specification: Specification) -> dict[str, Any]:
    labels, n_first = arms.shown_names or (), specification.learner.size
    added = labels[sum(arm < n_first for arm in arms.live) :]
    return {"size": arms.size, "live": list(arms.live), "paused": sorted(arms.paused), "added": added}


def _arms(kept: _StoredFields) -> Arms | None:
    """Return the arms in what was stored, removed ones still to be read; ``ValueError`` if they do not fit."""
    if kept.arms is None:
        return None
    (size, live, paused, added), learner = dict(kept.arms).values(), kept.specification.learner
    first: list[str] = getattr(learner, "arms", None) or []
    names = [*(first[arm] for arm in live if 0 <= arm < len(first)), *added]
    is_ascending = all(one < other for one, other in pairwise([-1, *live, size]))
    are_named = len(set(names)) == len(names) == len(live) and 0 < len(first) <= size
    if not (are_named and is_ascending and set(paused) < set(live)):
        raise ValueError("not the arms of a session")
    return Arms.at(live, size, names, paused, {} if size == len(live) else None)


def decode(spec: bytes) -> Stored:
    """Read what ``Stored.encode`` wrote; recent results are cached, fewer of the large ones.

    Sessions that were created with equal fields share what is read of them, whatever their seeds.

    Raises
    ------
    ValueError
        for anything else.
    """
    if len(spec) >= LARGE_SPEC_BYTES:
        return _large(spec)
    if (found := _SEED.search(spec)) is None or (seed := int(found[1])) >= 2**SEED_BITS:
        return _decode(spec)
    return _small(without_seed(spec))._replace(seed=seed)


def without_seed(spec: bytes) -> bytes:
    """Return what ``Stored.encode`` wrote with 0 for the seed: the same for all sessions with equal fields."""
    return spec[: spec.rindex(b":") + 1] + b"0}"


def _decode(spec: bytes) -> Stored:
    try:
        kept = _StoredFields.model_validate(json.loads(spec))
        specification, features = kept.specification, kept.specification.features or {}
        if sorted(kept.features) != sorted(features):
            raise ValueError("not the features of a session")
        if features:
            ordered = {name: features[name] for name in kept.features}
            specification = specification.model_copy(update={"features": ordered})
        return Stored(specification, kept.seed, _arms(kept), kept.tokens_from)
    except (ValueError, TypeError, RecursionError) as error:
        raise ValueError("not a session's specification") from error


_small, _large = lru_cache(1024)(_decode), lru_cache(4)(_decode)


def _fields(specification: Specification) -> dict[str, Any]:
    """Return all that a client may post but the seed, with defaults filled in."""
    return specification.model_dump(exclude={"seed", "learner"}) | {"learner": specification.learner.resolved()}
