"""Events that name no slot: estimates against the formulas written out, and how often intervals hold."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest

from loadtest.evaluate import HEAD, WORLDS, counted, played, table_rows
from service.evaluation.command import arm_means, policies
from service.evaluation.delays import BINS, ROUNDS
from service.evaluation.logs import LATE, match

Z = 1.959963984540054


def written_out(acts, clicks, window, end):
    """Value and interval of uniform play and of each arm, from the chance of each act for each event."""
    at, arm, p = (np.array([act[name] for act in acts]) for name in ("at", "arm", "probability"))
    came, of = (np.array([click[name] for click in clicks]) for name in ("at", "arm"))
    edges, ages = min(window, end - at[0]) * (np.arange(BINS + 1) / BINS) ** 2, came[:, None] - at
    widths, is_own = np.diff(edges), of[:, None] == arm
    inside = np.array([is_own & (edges[j] < ages) & (ages <= edges[j + 1]) for j in range(BINS)])
    share = np.clip((end - at - edges[:-1, None]) / widths[:, None], 0, 1)
    exposed = np.array([share[:, arm == k].sum(axis=1) for k in range(5)])
    counts, phi = np.array([(of == k).sum() for k in range(5)]), np.full(BINS, 1 / BINS)
    for _ in range(ROUNDS):
        likely = (phi / widths)[:, None] * inside.sum(axis=2)
        rates = np.maximum(counts / (exposed @ phi) @ exposed, 1e-9)
        phi = (likely / likely.sum(axis=0)).sum(axis=1) / rates
        phi /= phi.sum()
    chances = np.tensordot(phi / widths, inside, 1)
    chances /= chances.sum(axis=1, keepdims=True)
    for weights in [0.2 / p, *((arm == k) / p for k in range(5))]:
        per_event, total = chances @ weights, weights @ (phi @ share)
        mean, size = per_event.sum() / total, total**2 / (weights**2 @ (phi @ share))
        centre = (mean + Z * Z / (2 * size)) / (1 + Z * Z / size)
        half = Z / (1 + Z * Z / size) * math.sqrt(mean * (1 - mean) / size + Z * Z / (4 * size * size))
        error = math.sqrt(per_event @ per_event) / total
        yield mean, min(mean - Z * error, centre - half), max(mean + Z * error, centre + half)


def test_a_small_log_gives_what_the_formulas_give():
    log = [entry for entry in played(WORLDS["short window"], 3)[0] if entry["at"] < 420]
    acts, clicks = ([entry for entry in log if entry["kind"] == kind] for kind in ("act", "event"))

    found = [each.ips for each in policies(match(log), 0.95)]

    expected = list(written_out(acts, clicks, 500 * LATE, log[-1]["at"]))
    compared = [(one, other) for one, other in zip(found, expected, strict=True) if one is not None]
    assert len(compared) > 1
    for one, other in compared:
        assert one == pytest.approx(other, rel=1e-6)


def test_a_log_that_is_short_beside_its_window_gives_values_within_the_range():
    session = {"kind": "session", "expiry": {"after_seconds": 3600, "default_reward": 0}, "reward_range": [0, 1]}
    act, event = {"kind": "act", "probability": 0.5, "eligible": 2}, {"kind": "event", "outcome": "applied"}
    log = [session | {"at": 0.0}]
    for t in range(1, 301):
        log.append(act | {"slot": t, "arm": t % 2, "at": t / 100})
        log += [event | {"arm": t % 2, "reward": 1, "at": t / 100 + 0.001}] * (t % 3 == 0)

    assert next(policies(match(log), 0.95)).ips.value == pytest.approx(1 / 3, abs=0.05)


def test_without_a_default_only_answered_acts_count():
    """Ratings of 1 and 0 without slots: of an arm with rating 1 the mean is 1, however few are rated."""
    session = {"kind": "session", "expiry": None, "reward_range": [0, 1], "at": 0.0}
    act = {"kind": "act", "probability": 0.5, "eligible": 2}
    acts = [act | {"slot": t, "arm": t % 2, "at": float(t)} for t in range(1, 401)]
    rating = {"kind": "event", "outcome": "applied"}
    rated = [rating | {"arm": t % 2, "reward": float(t % 2), "at": t + 2.5} for t in range(1, 401) if t % 3]
    log = [session, *sorted([*acts, *rated], key=lambda entry: entry["at"])]

    means = [each.ips for each in arm_means(match(log), 0.95)]
    few = [each.ips for each in arm_means(match(log[:120]), 0.95)]

    assert [round(mean.value, 9) for mean in means] == [0, 1]
    assert few == [None, None]  # Fewer than 50 answers each.


def test_a_log_without_other_values_than_the_default_has_no_width():
    entries = played(WORLDS["short window"], 1)[0]
    log = [{**entry, "reward": 0.0} if entry["kind"] == "event" else entry for entry in entries]

    assert next(policies(match(log), 0.95)).ips == (0, 0, 0)


def test_the_study_counts_each_interval_once():
    total = counted(("control group", 7))

    assert sum(total.values()) > 10
    assert {row[0] for row in table_rows(total)} == {"control group, run out", "control group, cut"}
    assert all(len(row) == len(HEAD) for row in table_rows(total))


@pytest.mark.slow
@pytest.mark.parametrize("name", WORLDS)
def test_intervals_hold_as_often_as_the_docs_say(name):
    """Within four standard errors of nine in ten, and of 85 in 100 for arms with few events."""
    total = sum((counted((name, seed)) for seed in range(40)), Counter())

    for is_cut in (False, True):
        for what in HEAD[1:]:
            held, lost = (total[name, is_cut, what, holds] for holds in (True, False))
            least = 0.85 if what == HEAD[-1] else 0.9
            if held + lost:
                assert held / (held + lost) > least - 4 * math.sqrt(least * (1 - least) / (held + lost)), what
