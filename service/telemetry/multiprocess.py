"""The folder in which the workers of one service keep their metrics.

The parent process imports this without prometheus-client, which it needs only once a worker has ended.
"""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prometheus_client.mmap_dict import MmapedDict

FOLDER = "PROMETHEUS_MULTIPROC_DIR"
"""Environment variable with the folder's path; prometheus-client reads it too."""
WORKER_RESTARTS = ("bandit_worker_restarts", "Workers that ended while they should serve, and were replaced.")
STORE_RESTARTS = ("bandit_store_restarts", "Embedded servers that ended, and were started again.")
"""Names and texts of what the parent process counts; workers only make the series."""

log = logging.getLogger(__name__)


def share(number: int) -> Path | None:
    """Let this process keep its metrics in the folder that the parent made; call it before ``Metrics`` is made.

    Parameters
    ----------
    number : the worker's place among the workers, from 0

    Returns
    -------
    The folder, or None where the parent made none.
    """
    folder = os.environ.get(FOLDER)
    if not folder:
        return None
    from .fast_counters import use_worker_number

    use_worker_number(number)
    return Path(folder)


class SharedMetrics:
    """The folder for the metrics of all workers; the parent makes it at the start and removes it at the stop."""

    def __init__(self) -> None:
        self._folder: str | None = None
        self._counts: MmapedDict | None = None
        try:
            self._folder = tempfile.mkdtemp(prefix="bandit-metrics-")
        except OSError as error:
            log.warning("no folder for metrics, so each worker reports its own counts only: %s", error)

    def environment(self, environment: Mapping[str, str]) -> dict[str, str]:
        """Return a worker's environment: the given one with ``FOLDER`` set to this folder, or removed."""
        others = {name: value for name, value in environment.items() if name != FOLDER}
        return others if self._folder is None else others | {FOLDER: self._folder}

    def count(self, name: str, text: str) -> None:
        """Add 1 to a counter without labels; the workers' scrapes add it to their own, which stay 0.

        Parameters
        ----------
        name : without the ending ``_total``
        text : what it counts, as the workers' metric says it
        """
        if self._folder is None:
            return
        from prometheus_client.mmap_dict import MmapedDict, mmap_key

        if self._counts is None:
            self._counts = MmapedDict(str(Path(self._folder, "counter_parent.db")))
        key = mmap_key(name, f"{name}_total", [], [], text)
        self._counts.write_value(key, self._counts.read_value(key)[0] + 1, 0.0)

    def forget_worker(self, number: int) -> None:
        """Remove the gauges of a worker that has ended; its counters stay.

        Parameters
        ----------
        number : its place among the workers, from 0
        """
        if self._folder is not None:
            from prometheus_client.multiprocess import mark_process_dead

            mark_process_dead(number, self._folder)

    def remove(self) -> None:
        """Remove the folder."""
        if self._counts is not None:
            self._counts.close()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
