"""The folder that the workers of one service count into."""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from prometheus_client import values
from prometheus_client.multiprocess import mark_process_dead

from .fast_counters import shared_value

FOLDER = "PROMETHEUS_MULTIPROC_DIR"
"""The variable by which the parent tells workers of the folder; its name is prometheus_client's."""

log = logging.getLogger(__name__)


def share(number: int) -> Path | None:
    """Let this process, the worker at place ``number``, count into the parent's folder; None without one.

    Called before the process makes its ``Metrics``.
    """
    folder = os.environ.get(FOLDER)
    if not folder:
        return None
    values.ValueClass = shared_value(number)
    return Path(folder)


class SharedMetrics:
    """The folder, fresh at every start; kept by the workers' parent."""

    def __init__(self) -> None:
        self._folder: str | None = None
        try:
            self._folder = tempfile.mkdtemp(prefix="bandit-metrics-")
        except OSError as error:
            log.warning("no folder for metrics, each worker tells its own: %s", error)

    def environment(self, environment: Mapping[str, str]) -> dict[str, str]:
        """The environment of a worker."""
        others = {name: value for name, value in environment.items() if name != FOLDER}
        return others if self._folder is None else others | {FOLDER: self._folder}

    def forget_worker(self, number: int) -> None:
        """Drop the gauges of a worker that has ended; what it counted stays."""
        if self._folder is not None:
            mark_process_dead(number, self._folder)

    def remove(self) -> None:
        """Remove the folder."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
