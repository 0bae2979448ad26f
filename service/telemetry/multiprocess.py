"""Where the workers of one service keep their metrics, and how they count there without a detour.

The parent process imports this without prometheus-client, which it needs only once a worker has ended.
"""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
from bisect import bisect_left
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prometheus_client import Counter, Histogram
    from prometheus_client.mmap_dict import MmapedDict

FOLDER = "PROMETHEUS_MULTIPROC_DIR"
"""Environment variable with the folder's path; prometheus-client reads it too."""
WORKER_RESTARTS = ("worker_restarts", "Workers that ended while they should serve, and were replaced.")
STORE_RESTARTS = ("store_restarts", "Embedded servers that ended, and were started again.")
"""Names, without ``bandit_``, and texts of what the parent process counts; workers only make the series."""

log = logging.getLogger(__name__)


def share(number: int) -> Path | None:
    """Let this process keep its metrics in the folder that the parent made; call it before ``Metrics`` is made.

    prometheus-client then names this process's files by the worker's number instead of its process id. A worker
    that replaces a dead one continues in its files, so that their number does not grow.

    Parameters
    ----------
    number : the worker's place among the workers, from 0

    Returns
    -------
    The folder, or None where the parent made none.
    """
    if not (folder := os.environ.get(FOLDER)):
        return None
    from prometheus_client import values

    mapped: Any = values.MultiProcessValue(process_identifier=lambda: number)

    class SharedValue(mapped):  # type: ignore[misc]
        """A value that says where in its file it is."""

        def mapped_float(self) -> tuple[memoryview[float], int]:
            """Return the numbers of the file, and the place of this one; it holds as long as the process."""
            file = self._file
            # A file that grows is mapped again; this view keeps the earlier mapping of the same bytes.
            return memoryview(file._m).cast("d"), file._positions[self._key] // 8  # noqa: SLF001

    values.ValueClass = SharedValue
    return Path(folder)


KINDS = ("counter", "histogram", "gauge_livesum", "gauge_livemin", "gauge_livemax")
"""Of a worker's metrics, as prometheus-client names the file of each."""
_PARENT = "counter_parent.db"
_EMPTY_BYTES = 65_536
"""What prometheus-client gives a new file; zeros are one without metrics."""


class SharedMetrics:
    """The metrics of all workers, in memory that ends with the processes: whoever cleans a disk can't remove it.

    prometheus-client opens files by their names, so there is a folder of links to what every process has inherited.

    Parameters
    ----------
    workers : how many the service has

    Attributes
    ----------
    files : descriptors, for the workers to inherit, by name
    """

    def __init__(self, workers: int) -> None:
        self._folder: str | None = None
        self._counts: MmapedDict | None = None
        self.files: dict[str, int] = {}
        try:
            folder = tempfile.mkdtemp(prefix="bandit-metrics-")
            for name in (_PARENT, *(f"{kind}_{number}.db" for number in range(workers) for kind in KINDS)):
                self.files[name] = os.memfd_create(name)
                os.truncate(self.files[name], _EMPTY_BYTES)
            self._folder = folder
            self.mend()
        except (OSError, AttributeError) as error:  # There are such files on Linux alone.
            log.warning("no folder for metrics, so each worker reports its own counts only: %s", error)

    def mend(self) -> None:
        """Make the folder and its links again, if something removes what is old from the disk."""
        if self._folder is None or self._is_whole(self._folder):
            return
        with suppress(OSError):  # It is tried again.
            Path(self._folder).mkdir(mode=0o700, parents=True, exist_ok=True)
            if Path(self._folder).stat().st_uid == os.geteuid():  # Somebody else may have made one of its name.
                for name, descriptor in self.files.items():
                    with suppress(FileExistsError):
                        Path(self._folder, name).symlink_to(f"/proc/self/fd/{descriptor}")

    def _is_whole(self, folder: str) -> bool:
        return all(os.path.lexists(Path(folder, name)) for name in self.files)

    def environment(self, environment: Mapping[str, str]) -> dict[str, str]:
        """Return a worker's environment: the given one with ``FOLDER`` set to this folder, or removed.

        It is removed, too, where the folder can't be made again: that worker reports its own counts only.
        """
        self.mend()
        others = {name: value for name, value in environment.items() if name != FOLDER}
        return others | {FOLDER: self._folder} if self._folder and self._is_whole(self._folder) else others

    def count(self, name: str, text: str) -> None:
        """Add 1 to a counter without labels; the workers' scrapes add it to their own, which stay 0.

        ``name`` lacks ``bandit_`` and the ending ``_total``, and ``text`` is what the workers' metric says.
        """
        if self._folder is None:
            return
        from prometheus_client.mmap_dict import MmapedDict, mmap_key

        if self._counts is None:
            self._counts = MmapedDict(f"/proc/self/fd/{self.files[_PARENT]}")
        key = mmap_key(f"bandit_{name}", f"bandit_{name}_total", [], [], text)
        self._counts.write_value(key, self._counts.read_value(key)[0] + 1, 0.0)

    def forget_worker(self, number: int) -> None:
        """Empty the gauges of a worker that has ended; its counters stay."""
        for name, descriptor in self.files.items():
            if name.startswith("gauge") and name.endswith(f"_{number}.db"):
                os.truncate(descriptor, 0)
                os.truncate(descriptor, _EMPTY_BYTES)

    def remove(self) -> None:
        """Remove the folder."""
        if self._counts is not None:
            self._counts.close()
        for descriptor in self.files.values():
            os.close(descriptor)
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)


# -- Faster increments and observations for prometheus-client's metrics in multiprocess mode.
#
# prometheus-client keeps the metrics of a worker in memory-mapped files. Its public ``inc`` and ``observe`` check
# the process, acquire a lock and search the buckets one by one: 1.4 and 6.8 us, against 0.12 and 0.25 us here (one
# core of a busy machine, Python 3.11, prometheus-client 0.26). An act makes four increments and three observations.
# Measured by turns in one run, that is 9 % of the CPU time of an act and 8 % of a feedback without a socket, 5 to 6
# % of either with a socket and sessions in memory, and about 4 % of an act with sessions in Redis.
#
# This relies on names that prometheus-client does not document. Semi-public, without an underscore, are
# ``values.ValueClass`` and ``values.MultiProcessValue(process_identifier=...)``; private are the values and buckets
# of metrics and the layout of mapped files. They are used in this file alone, and
# tests/telemetry/test_multiprocess.py holds what is expected of them. After an increment through this module
# ``inc`` of prometheus-client must not be used on the same metric: it adds to a number that it remembers.
#
# An increment is a write to the file: it is not lost when the worker is killed, and the next scrape of any worker
# includes it. Only the thread of the event loop may call these functions: nothing is locked.

Increment = Callable[..., None]
"""Takes the amount to add, 1 by default."""
Observe = Callable[[float], None]
"""Takes the observed value."""


def fast_inc(counter: Counter) -> Increment:
    """Return a function that increments a counter; of a family give one with its labels set.

    Without a shared folder it is ``counter.inc``.
    """
    value: Any = counter._value  # noqa: SLF001
    if not hasattr(value, "mapped_float"):
        return counter.inc
    numbers, place = value.mapped_float()

    def increment(amount: float = 1.0) -> None:
        numbers[place] += amount

    return increment


def fast_observe(histogram: Histogram) -> Observe:
    """Return a function that observes a value; of a family give one histogram with its labels set.

    Without a shared folder it is ``histogram.observe``.
    """
    total: Any = histogram._sum  # noqa: SLF001
    if not hasattr(total, "mapped_float"):
        return histogram.observe
    numbers, sum_place = total.mapped_float()
    places = [bucket.mapped_float()[1] for bucket in histogram._buckets]  # noqa: SLF001
    bounds = histogram._upper_bounds[:-1]  # noqa: SLF001

    def observe(amount: float) -> None:
        numbers[sum_place] += amount
        numbers[places[bisect_left(bounds, amount)]] += 1.0

    return observe
