"""The learners of the study, and which worlds each can play."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any, NamedTuple

from loadtest.errors import LoadTestError
from loadtest.study.catalogue import CHANGES, FULL, LIBRARIES, STALLS, WEARY
from loadtest.study.peers import MabWiser, PeerPlayer, Policy, Vowpal, river_greedy, river_thompson, river_ucb
from loadtest.study.players import Greedy, Player, ServicePlayer, Thompson, Uniform
from loadtest.study.worlds import Drawn, World
from service.learners import REGISTRY

NO_CLICK = 1.0
"""The loss of a missing click."""
BASELINES_UP_TO = 100
"""Arms up to which the learners that are there for comparison play."""


class Entry(NamedTuple):
    """A learner of the study."""

    key: str
    name: str
    build: Callable[[Drawn], Player]
    plays: Callable[[str, World], bool]
    """Whether it plays a world of a group."""
    alone: bool = False
    """Whether its worlds are played one by one: its rates are those of a world."""
    needs: str = ""
    """The module of a library that must be installed."""


def _default(drawn: Drawn) -> float | None:
    return NO_CLICK if drawn.world.clicks else None


def _counting(player: type[Thompson], *, provisional: bool) -> Callable[[Drawn], Player]:
    def build(drawn: Drawn) -> Player:
        names = [world.name for world in drawn.worlds]
        return player(drawn.runs, drawn.world.arms, _default(drawn), names, provisional=provisional)

    return build


def _peer(make: Callable[[int, int], Policy]) -> Callable[[Drawn], Player]:
    return lambda drawn: PeerPlayer(make, drawn.world.arms, drawn.seeds * len(drawn.worlds), _default(drawn))


def _service(kind: str, *, theorem: bool = False, provisional: bool = False) -> Callable[[Drawn], Player]:
    """Play a kind of the service at its theorem's rates, or at those for which no stream need be known."""

    def build(drawn: Drawn) -> Player:
        slots, late = drawn.world.slots, drawn.delays[..., 0].clip(max=drawn.world.slots)
        told = {"horizon": slots, "max_delay": int(late.max()), "total_delay": int(late.sum())} if theorem else {}
        spec = REGISTRY[kind]
        fields = {"kind": kind, "n_arms": drawn.world.arms}
        fields |= {name: value for name, value in told.items() if name in spec.model_fields}
        learner: Any = spec.model_validate(fields).build()
        return ServicePlayer(learner, drawn.runs, _default(drawn), provisional=provisional)

    return build


def _everywhere(_group: str, _world: World) -> bool:
    return True


def _on_clicks(group: str, world: World) -> bool:
    return group not in {STALLS, LIBRARIES} and world.clicks


def _over_all_arms(group: str, world: World) -> bool:
    return group not in {STALLS, LIBRARIES} and not world.barred and world.places == 1


def _for_comparison(group: str, world: World) -> bool:
    """Where each decision is answered once, and no arm comes or goes."""
    plain = not (world.clicks or world.lost or world.doubled or world.weary or world.changes or world.visitors)
    return plain and group in {FULL, CHANGES} and world.arms <= BASELINES_UP_TO


def _compared(key: str, name: str) -> Entry:
    return Entry(key, name, _service(key.removesuffix("_theorem"), theorem=True), _for_comparison, alone=True)


def _beside_ours(group: str, _world: World) -> bool:
    return group == LIBRARIES


def _weary_only(group: str, _world: World) -> bool:
    return group == WEARY


MULTISCALE = "multiscale_tsallis"
ENTRIES = (
    Entry("uniform", "uniform play", lambda drawn: Uniform(drawn.runs, drawn.world.arms), _weary_only),
    Entry(MULTISCALE, "multiscale Tsallis", _service(MULTISCALE, provisional=True), _everywhere),
    Entry("multiscale_waiting", "multiscale Tsallis, waiting", _service(MULTISCALE), _on_clicks),
    Entry("centred_tsallis", "centred Tsallis", _service("centred_tsallis"), _everywhere),
    Entry("dexp3", "DEXP3, anytime", _service("dexp3"), _over_all_arms),
    Entry("thompson", "Thompson", _counting(Thompson, provisional=False), _everywhere),
    Entry("thompson_provisional", "Thompson, provisional", _counting(Thompson, provisional=True), _on_clicks),
    Entry("greedy", "epsilon-greedy", _counting(Greedy, provisional=True), _everywhere),
    _compared("dexp3_theorem", "DEXP3, theorem"),
    _compared("exp3", "EXP3"),
    _compared("exp3_current", "EXP3 with current p"),
    _compared("bold", "BOLD"),
    _compared("clw", "CLW"),
    _compared("batched_exp3", "batched EXP3"),
    _compared("tsallis_delayed", "delayed Tsallis"),
    Entry("river_thompson", "river, Thompson", _peer(river_thompson), _beside_ours, needs="river"),
    Entry("river_ucb", "river, UCB1", _peer(river_ucb), _beside_ours, needs="river"),
    Entry("river_greedy", "river, epsilon-greedy", _peer(river_greedy), _beside_ours, needs="river"),
    Entry("vowpal", "Vowpal Wabbit", _peer(Vowpal), _beside_ours, needs="vowpalwabbit"),
    Entry("mabwiser", "MABWiser, Thompson", _peer(MabWiser), _beside_ours, needs="mabwiser"),
)
"""In the order of the tables."""


def installed(entries: Sequence[Entry] = ENTRIES) -> tuple[list[Entry], list[Entry]]:
    """Return the learners that can play, and those whose library is not installed."""
    can = [entry for entry in entries if not entry.needs or find_spec(entry.needs)]
    return can, [entry for entry in entries if entry not in can]


def chosen(entries: Sequence[Entry], keys: Sequence[str]) -> list[Entry]:
    """Return the learners with these keys, in their order.

    Raises
    ------
    LoadTestError
        naming a key that no learner has, and those there are.
    """
    by_key = {entry.key: entry for entry in entries}
    if unknown := [key for key in keys if key not in by_key]:
        raise LoadTestError(f"no learner {unknown[0]!r} in the study; there are {', '.join(by_key)}")
    return [by_key[key] for key in keys]
