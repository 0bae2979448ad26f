"""How what was counted is told to Prometheus.

Any worker can tell the sum of all: each writes its numbers to files of its own in a folder the parent made, named
by its place among the workers and not by its process id, so that a worker that replaces a dead one counts on from
where that one ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4


class Balance(NamedTuple):
    """A gauge that follows from counters."""

    name: str
    text: str
    added: tuple[str, ...]
    taken: tuple[str, ...]


class Exposition:
    """Tells the numbers of a registry; with a shared ``folder``, summed over all workers."""

    def __init__(self, registry: CollectorRegistry, folder: Path | None, balances: Sequence[Balance]) -> None:
        self._registry = registry
        self._folder = folder
        self._balances = balances
        self._scrapes = asyncio.Lock()

    async def text(self) -> bytes:
        """All of it in Prometheus' text format, made beside the event loop."""
        async with self._scrapes:
            return await asyncio.to_thread(self._text)

    def _text(self) -> bytes:
        return generate_latest(self)

    def collect(self) -> Iterator[Metric]:
        """All metrics: the counted ones, and what follows from them."""
        counted = self._registry
        if self._folder is not None:
            counted = CollectorRegistry()
            MultiProcessCollector(counted, str(self._folder))
        families = {family.name: family for family in counted.collect()}
        yield from families.values()
        for name, text, added, taken in self._balances:
            balance = sum(_total(families[one]) for one in added) - sum(_total(families[one]) for one in taken)
            yield GaugeMetricFamily(name, text, balance)


def _total(family: Metric) -> float:
    return sum(sample.value for sample in family.samples)
