"""What fast counters write is what prometheus-client reads, whatever the process did last."""

import subprocess
import sys

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.multiprocess import MultiProcessCollector

from service.telemetry.multiprocess import FOLDER, fast_inc, fast_observe

BOUNDS = (0.5, 1.0, 2.0)
AMOUNTS = [0.0, 0.25, 0.5, 0.5000001, 1.0, 1.5, 2.0, 2.5, 1e9]

WORKER = """
import os, signal, sys
from prometheus_client import Counter, Histogram
from service.telemetry.multiprocess import fast_inc, fast_observe, share

share(int(sys.argv[1]))
add = fast_inc(Counter("early", "Made before the file grew."))
observe = fast_observe(Histogram("sizes", "Sizes.", buckets=(0.5, 1.0, 2.0)))
more = Counter("more", "So many that the file grows.", ["number"])
for number in range(2000):
    fast_inc(more.labels(str(number)))(number)
add()
add(2)
for amount in map(float, sys.argv[2:]):
    observe(amount)
os.kill(os.getpid(), signal.SIGKILL)
"""


def told(folder):
    registry = CollectorRegistry()
    MultiProcessCollector(registry, str(folder))
    samples = [sample for family in registry.collect() for sample in family.samples]
    return {(sample.name, *sample.labels.values()): sample.value for sample in samples}


def work(folder, number):
    arguments = [sys.executable, "-c", WORKER, str(number), *map(str, AMOUNTS)]
    ended = subprocess.run(arguments, env={FOLDER: str(folder)}, capture_output=True, text=True, check=False)
    assert ended.returncode == -9, ended.stderr


def test_what_killed_workers_counted_is_told_to_the_last(tmp_path):
    work(tmp_path, 0)
    work(tmp_path, 1)
    work(tmp_path, 0)
    series = told(tmp_path)

    assert (series["early_total",], series["more_total", "1999"]) == (9, 3 * 1999)
    assert (series["sizes_count",], series["sizes_sum",]) == (3 * len(AMOUNTS), 3 * sum(AMOUNTS))


def test_amounts_fall_into_the_buckets_that_prometheus_client_chooses(tmp_path):
    work(tmp_path, 0)
    histogram = Histogram("sizes", "Sizes.", buckets=BOUNDS, registry=CollectorRegistry())
    for amount in AMOUNTS:
        histogram.observe(amount)
    (family,) = histogram.collect()
    expected = {s.labels["le"]: s.value for s in family.samples if s.name == "sizes_bucket"}

    assert {key[1]: value for key, value in told(tmp_path).items() if key[0] == "sizes_bucket"} == expected


def test_without_a_folder_they_are_prometheus_clients_own():
    registry = CollectorRegistry()
    fast_inc(Counter("some", "Some.", registry=registry))(3)
    fast_observe(Histogram("sizes", "Sizes.", registry=registry))(0.3)

    assert (registry.get_sample_value("some_total"), registry.get_sample_value("sizes_sum")) == (3, 0.3)
