"""No click comes for two windows in the middle of a good session: what that costs afterwards, and false alarms."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from loadtest.replay.session import pass_time
from service.engine.arm_run import ArmRun
from service.engine.ledger import LEAST_EVENTS, LEAST_MISSED, ArmFeedback, Expiry, Params
from service.engine.run import start_run
from service.learners import REGISTRY

ARMS, WINDOW, SLOTS = 10, 1000, 14_000
"""A visitor comes each second, and the window has so many."""
START, END = SLOTS // 2, SLOTS // 2 + 2 * WINDOW
"""From when and until when clicks are lost."""
RATES = 2, 30
"""Of the Beta distribution that each arm's share of clicks is drawn from."""
LEARNERS = {"multiscale_tsallis": True, "multiscale_tsallis, waiting": False}
"""Whether the default is provisional."""
COURSES = {"no outage": (False, True), "silence": (True, True), "no silence": (True, False)}
"""By name: whether clicks are lost, and whether the session falls silent."""


class Job(NamedTuple):
    """A session to play."""

    learner: str
    seed: int


def play(job: Job) -> list[float]:
    """Return for each course the clicks to be expected of what is shown after the outage, by the same visitors."""
    learner = REGISTRY["multiscale_tsallis"].model_validate({"n_arms": ARMS})
    params = Params(learner, job.seed, expiry=Expiry(WINDOW, 1.0, LEARNERS[job.learner]))
    source = np.random.default_rng(job.seed)
    rates, wants = source.beta(*RATES, ARMS), source.random(SLOTS)
    delays = np.ceil(source.exponential(WINDOW / 3, SLOTS)).astype(int).tolist()

    def go_on(run: ArmRun, due: dict[int, list[int]], slots: range, *, has_outage: bool) -> float:
        clicks = 0.0
        for t in slots:
            pass_time(run, t)
            for arm in due.pop(t, ()):
                if run.ledger.by_arm[arm] and not (has_outage and START <= t < END):
                    run.settle(ArmFeedback(arm, 0.0))
            arm = run.act().arm
            clicks += rates[arm] if t >= END else 0.0
            if wants[t] < rates[arm] and delays[t] <= WINDOW:
                due.setdefault(t + delays[t], []).append(arm)
        return float(clicks)

    run, due, found = start_run(params), dict[int, list[int]](), list[float]()
    assert isinstance(run, ArmRun)  # noqa: S101 - the learner is over arms
    go_on(run, due, range(START), has_outage=False)
    for has_outage, may_fall_silent in COURSES.values():
        course = run.copy()
        course.params = run.params._replace(may_fall_silent=may_fall_silent)
        waiting = {at: list(arms) for at, arms in due.items()}
        found.append(go_on(course, waiting, range(START, SLOTS), has_outage=has_outage))
    return found


def rows(jobs: Sequence[Job], clicks: Sequence[Sequence[float]]) -> Iterator[tuple[str, ...]]:
    """Yield for each learner the clicks after an outage, and what it has cost of them in percent."""
    for learner in LEARNERS:
        played = [each for job, each in zip(jobs, clicks, strict=True) if job.learner == learner]
        without, *others = np.array(played).T
        for name, found in zip(list(COURSES)[1:], others, strict=True):
            lost = 100 * (1 - found / without)
            error = lost.std(ddof=1) / len(lost) ** 0.5
            yield learner, name, f"{found.mean():.0f}", f"{lost.mean():.1f} ± {error:.1f} %"


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
