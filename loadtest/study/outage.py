"""No click comes for two windows in the middle of a good session: what that costs afterwards, and false alarms."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from loadtest.replay.session import pass_time
from service.engine.arm_run import ArmRun
from service.engine.ledger import LEAST_EVENTS, LEAST_MISSED, ArmFeedback
from service.engine.run import start_run
from service.models.specification import Specification

ARMS, WINDOW, SLOTS = 10, 1000, 20_000
"""A visitor comes each second, and the window has so many."""
START, END = SLOTS // 2, SLOTS // 2 + 2 * WINDOW
"""From when and until when clicks are lost."""
RATES = 2, 30
"""Of the Beta distribution that each arm's share of clicks is drawn from."""
LEARNERS = {
    "multiscale_tsallis": ("multiscale_tsallis", True),
    "multiscale_tsallis, waiting": ("multiscale_tsallis", False),
    "centred_tsallis": ("centred_tsallis", None),
}
"""By name: the kind, and whether the default is provisional."""
COURSES = {"no outage": (False, True), "silence": (True, True), "no silence": (True, False)}
"""By name: whether clicks are lost, and whether the session falls silent."""


class Job(NamedTuple):
    """A session to play."""

    learner: str
    course: str
    seed: int


def play(job: Job) -> float:
    """Return the clicks to be expected of what is shown after the outage; seeds alike have the same visitors."""
    (kind, provisional), (has_outage, silence) = LEARNERS[job.learner], COURSES[job.course]
    expiry = {"after_seconds": float(WINDOW), "default_reward": 0.0, "provisional": provisional}
    fields = {"learner": {"kind": kind, "n_arms": ARMS}, "reward_range": [0.0, 1.0], "expiry": expiry}
    spec = Specification.model_validate(fields | {"guard": {"silence": silence}})
    source = np.random.default_rng(job.seed)
    rates, wants = source.beta(*RATES, ARMS), source.random(SLOTS)
    delays = np.ceil(source.exponential(WINDOW / 3, SLOTS)).astype(int).tolist()
    run, due, clicks = start_run(spec.decided().params(job.seed)), defaultdict[int, list[int]](list), 0.0
    assert isinstance(run, ArmRun)  # noqa: S101 - the learners above are over arms
    for t in range(SLOTS):
        pass_time(run, t)
        for arm in due.pop(t, ()):
            if run.ledger.by_arm[arm] and not (has_outage and START <= t < END):
                run.settle(ArmFeedback(arm, 0.0))
        arm = run.act().arm
        clicks += rates[arm] if t >= END else 0.0
        if wants[t] < rates[arm] and delays[t] <= WINDOW:
            due[t + delays[t]].append(arm)
    return float(clicks)


def rows(jobs: Sequence[Job], clicks: Sequence[float]) -> Iterator[tuple[str, ...]]:
    """Yield for each learner the clicks after an outage, and what it has cost of them in percent."""
    found = dict(zip(jobs, clicks, strict=True))
    for learner in LEARNERS:
        seeds = [job.seed for job in jobs if job.learner == learner and job.course == "silence"]
        by_course = {name: np.array([found[Job(learner, name, seed)] for seed in seeds]) for name in COURSES}
        for name in ("silence", "no silence"):
            lost = 100 * (1 - by_course[name] / by_course["no outage"])
            error = lost.std(ddof=1) / len(lost) ** 0.5
            yield learner, name, f"{by_course[name].mean():.0f}", f"{lost.mean():.1f} ± {error:.1f} %"


def false_alarms(rate: float, acts: int, sessions: int) -> int:
    """Return how many sessions fall silent whose visitors and clicks, so rare, never cease to come at random."""
    found, source = 0, np.random.default_rng(0)
    for _ in range(sessions):
        times = source.exponential(1.0, acts).cumsum()
        delays, are_clicked = source.exponential(WINDOW / 3, acts), source.random(acts) < rate
        events = times + delays
        events = np.sort(events[are_clicked & (delays <= WINDOW) & (events < times[-1])])
        opened, over = times.searchsorted(events), times.searchsorted(events - WINDOW)
        ended = 0  # The oldest decisions are settled, or have expired.
        for number, (so_far, old) in enumerate(zip(opened.tolist(), over.tolist(), strict=True)):
            missed = max(old - ended, 0)
            if number >= LEAST_EVENTS and missed * number >= LEAST_MISSED * so_far:
                found += 1
                break
            ended += missed + 1
    return found
