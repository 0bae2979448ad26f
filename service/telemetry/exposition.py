"""The answer of ``GET /metrics``: the metrics of all workers in Prometheus' text format.

Each worker keeps its metrics in files in a folder that the parent makes, so any worker can sum those of all.
Files are named by the worker's number, not by its process id, so a worker that replaces a dead one continues its
counts.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4


class Exposition:
    """The metrics of a registry as text; with a shared ``folder``, summed over all workers.

    Parameters
    ----------
    registry : of this process
    folder : where all workers of the service keep their metrics; None where this process is the only one
    """

    def __init__(self, registry: CollectorRegistry, folder: Path | None) -> None:
        self._registry = registry
        self._folder = folder
        self._scrapes = asyncio.Lock()

    async def text(self) -> bytes:
        """Return all metrics in the text format; they are read and written in a thread."""
        async with self._scrapes:
            return await asyncio.to_thread(self._text)

    def _text(self) -> bytes:
        return generate_latest(self._collected())

    def _collected(self) -> CollectorRegistry:
        if self._folder is None:
            return self._registry
        collected = CollectorRegistry()
        MultiProcessCollector(collected, str(self._folder))
        return collected
