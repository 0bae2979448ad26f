"""All kinds of faults, by the stage that they happen on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import cycle, islice
from typing import Any, NamedTuple

from loadtest.chaos.clock import CLOCKS, lacks_faketime, staged_clock
from loadtest.chaos.disk import DISKS, lacks_mount, staged_disk
from loadtest.chaos.faults import FAULTS
from loadtest.chaos.group import FAILOVERS, staged_group
from loadtest.chaos.network import PARTITIONS, lacks_namespaces, staged_network
from loadtest.chaos.rounds import IMPATIENT, staged

Fault = Callable[[Any], None]


class Kind(NamedTuple):
    """Kinds of faults that happen to the same stage.

    Attributes
    ----------
    stage_of : starts it, given a folder for data, one for logs, a seed, and flags of the service
    lacks : why it can't be played on this machine, None where it can
    """

    faults: Mapping[str, Fault]
    stage_of: Callable[..., AbstractContextManager[Any]]
    flags: Sequence[str] = ()
    lacks: Callable[[], str | None] = lambda: None


ONE_STORE = (
    Kind(FAULTS, staged, IMPATIENT),
    Kind(CLOCKS, staged_clock, lacks=lacks_faketime),
    Kind(DISKS, staged_disk, lacks=lacks_mount),
)
REPLICAS = (Kind(FAILOVERS, staged_group), Kind(PARTITIONS, staged_network, lacks=lacks_namespaces))
NAMES = [name for kind in (*ONE_STORE, *REPLICAS) for name in kind.faults]


def chosen(kinds: Sequence[Kind], names: Sequence[str] | None) -> list[Kind]:
    """Return the kinds with the faults that are named, all if none are."""
    picked = (
        kind._replace(faults={name: fault for name, fault in kind.faults.items() if not names or name in names})
        for kind in kinds
    )
    return [kind for kind in picked if kind.faults]


def shared_out(kinds: Sequence[Kind], rounds: int) -> list[tuple[Kind, int]]:
    """Return how many of the rounds each stage plays, where all faults of all stages take turns."""
    turns = Counter(islice(cycle(name for kind in kinds for name in kind.faults), rounds if kinds else 0))
    counts = [(kind, sum(turns[name] for name in kind.faults)) for kind in kinds]
    return [(kind, count) for kind, count in counts if count]
