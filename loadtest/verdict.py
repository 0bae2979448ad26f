"""How often a verdict is ever wrong though one looks all the time, and how soon it finds what is better.

Sessions with a control group are played in process, on the code that commits use: visitors click late, their events
name no slot, and what is not clicked within the window expires.
"""

from __future__ import annotations

import heapq
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

import numpy as np

from loadtest.replay.session import pass_time
from service.engine.arm_run import ArmRun
from service.engine.control import group_sums, verdict
from service.engine.ledger import ArmFeedback, ControlParams, Expiry, LossRange, Params
from service.engine.run import start_run
from service.learners import REGISTRY

WINDOW, MEAN_DELAY = 600.0, 120.0
"""Seconds; a visitor comes each second, so that clicks of 600 acts may still come."""
LOOK = 50
"""Acts between two looks."""
POOL, SHAPE = 200, 2.0
"""Visitors who come in turn, and the shape of the gamma distribution of what they multiply an arm's rate by."""
LEARNERS = ("multiscale_tsallis", "dexp3")
ACTS, LONGEST = 10_000, 20_000
"""Acts of a session without a difference, and of one with."""
REWARDS = LossRange(1.0, 0.0, word="reward")
MARKS = ("<!-- measured: begin -->", "<!-- measured: end -->")


class Case(NamedTuple):
    """Sessions that differ in their seeds alone."""

    kind: str
    """Of the learner; the default of multiscale_tsallis is provisional."""
    share: float
    """Of the control group, which draws all arms alike."""
    rates: Sequence[float]
    """Chance of a click by arm."""
    acts: int
    most_visits: int = 1
    """A visitor comes 1 to so many times, and is in one group all the time; 1: slots are of groups."""

    @property
    def has_effect(self) -> bool:
        """Whether arms differ."""
        return len(set(self.rates)) > 1


class Look(NamedTuple):
    """A session after some acts."""

    acts: int
    verdict: Mapping[str, Any] | None
    truth: float
    """Difference of the groups' mean chances of a click so far."""
    counts: Sequence[tuple[int, int]]
    """Acts and applied clicks of the learner's group, and of the control group."""


class Played(NamedTuple):
    """What a session came to."""

    outside: bool
    """Whether the truth was ever outside the interval, when somebody looked."""
    found: int | None
    """Acts until the learner was first found better; None: it was not."""
    width: float
    """Half the interval at the end."""


def looks(case: Case, seed: int) -> Iterator[Look]:
    """Play a session, and look at it each ``LOOK`` acts; all numbers follow from ``seed``."""
    spec = REGISTRY[case.kind].model_validate({"kind": case.kind, "n_arms": len(case.rates)})
    expiry = Expiry(WINDOW, 1.0, case.kind == "multiscale_tsallis")
    params = Params(spec, seed, REWARDS, expiry, control=ControlParams(case.share))
    run, chance = cast("ArmRun", start_run(params)), np.random.default_rng(seed)
    uniforms, delays = chance.random(case.acts).tolist(), chance.exponential(MEAN_DELAY, case.acts).tolist()
    comes, visitors = _visits(case, chance), case.most_visits > 1
    clicks, counts, chances = list[tuple[float, int, bool]](), [[0, 0], [0, 0]], [0.0, 0.0]
    for slot, uniform, delay, (name, factor) in zip(range(1, case.acts + 1), uniforms, delays, comes, strict=False):
        pass_time(run, now := float(slot))
        while clicks and clicks[0][0] <= now:
            _, arm, of_control = heapq.heappop(clicks)
            event = ArmFeedback(arm, 0.0, is_control=of_control)
            if not run.surplus([event]):
                run.apply(event)
                counts[of_control][1] += 1
        is_control = run.is_control(slot, name if visitors else None)
        arm = run.control.act(run, None, 1).arms[0] if is_control and run.control else run.act().arm
        counts[is_control][0] += 1
        chances[is_control] += case.rates[arm]
        if uniform < case.rates[arm] * factor:
            heapq.heappush(clicks, (now + delay, arm, is_control))
        if not slot % LOOK and run.control is not None:
            sums = [group_sums(ledger, REWARDS, expiry) for ledger in (run.ledger, run.control.ledger)]
            of_learner, of_control_group = (
                total / max(acts, 1) for total, (acts, _) in zip(chances, counts, strict=True)
            )
            found = verdict(sums[0], sums[1], REWARDS)
            yield Look(slot, found, of_learner - of_control_group, [(acts, hits) for acts, hits in counts])


def _visits(case: Case, chance: np.random.Generator) -> Iterator[tuple[str, float]]:
    """Yield who comes, and what multiplies the chances of a click: 1 where everybody comes once."""
    if case.most_visits == 1:
        yield from (("", 1.0) for _ in range(case.acts))
    left, names, factors, last = [0] * POOL, [0] * POOL, [1.0] * POOL, 0
    for at in chance.integers(POOL, size=case.acts).tolist():
        if not left[at]:
            last += 1
            left[at], names[at] = int(chance.integers(1, case.most_visits + 1)), last
            factors[at] = float(chance.gamma(SHAPE, 1 / SHAPE))
        left[at] -= 1
        yield str(names[at]), factors[at]


def play(case: Case, seed: int) -> Played:
    """Play a session; one with a difference until it is found."""
    outside, found, width = False, None, math.nan
    for look in looks(case, seed):
        if look.verdict is not None:
            low, high = look.verdict["low"], look.verdict["high"]
            outside, width = outside or not low <= look.truth <= high, (high - low) / 2
            if low > 0 and found is None:
                found = look.acts
        if found is not None and case.has_effect:
            break
    return Played(outside, found, width)


def counted_cases(runs: int, effects: int) -> dict[Case, int]:
    """Return how many sessions of each case are played.

    Parameters
    ----------
    runs : sessions without a difference; one in ten is of the learner that takes six times as long
    effects : sessions of each case in which one arm is twice as good
    """
    shares, alike = (0.1, 0.5), (0.06,) * 5
    few, many = LEARNERS
    counts = {Case(few, share, alike, ACTS): runs // 20 for share in shares}
    counts |= {Case(many, share, alike, ACTS): runs // 2 - runs // 20 for share in shares}
    counts |= {Case(many, share, alike, ACTS, 50): runs // 8 for share in shares}
    better = [(rate, rate, rate, rate, 2 * rate) for rate in (0.02, 0.05, 0.1)]
    return counts | {Case(few, share, rates, LONGEST): effects for rates in better for share in shares}


Job = tuple[Case, int]
PARTS, SEEDS = 20, 100_000
"""Results are kept after each such part of all sessions; seeds of a case follow its number times ``SEEDS``."""


def jobs_of(counts: Mapping[Case, int], part: int = PARTS) -> list[Job]:
    """Return the sessions of the first so many ``PARTS``, those of each case in the order of their seeds."""
    numbered = enumerate(counts.items())
    return [(case, at * SEEDS + seed) for at, (case, n) in numbered for seed in range(1, n * part // PARTS + 1)]


def key_of(job: Job) -> str:
    """Return the name of a session in the file of results."""
    return json.dumps(job)


def run_job(job: Job) -> Played:
    """Play a session."""
    return play(*job)


def gathered(counts: Mapping[Case, int], results: Mapping[str, Sequence[Any]]) -> dict[Case, list[Played]]:
    """Return the sessions of each case; results are by ``key_of``."""
    found: dict[Case, list[Played]] = {}
    for job in jobs_of(counts):
        found.setdefault(job[0], []).append(Played(*results[key_of(job)]))
    return found


def _share(hits: Sequence[bool]) -> str:
    """Return a share in percent, and its standard error."""
    share = sum(hits) / len(hits)
    return f"{100 * share:.1f} ± {100 * math.sqrt(share * (1 - share) / len(hits)):.1f} %"


Table = tuple[str, Sequence[str], list[Sequence[str]]]


def tables(played: Mapping[Case, Sequence[Played]]) -> list[Table]:
    """Return title, head and rows of each table."""
    alike, better = list[Sequence[str]](), list[Sequence[str]]()
    for case, all_of in played.items():
        outside = _share([each.outside for each in all_of])
        if case.has_effect:
            acts = sorted(each.found or math.inf for each in all_of)
            quartiles = (acts[len(acts) * part // 4] for part in (1, 2, 3))
            needed = [f"{at:,.0f}" if at < math.inf else f"over {case.acts:,}" for at in quartiles]
            rate = f"{100 * case.rates[0]:.0f} %"
            better.append((rate, str(case.share), str(len(all_of)), *needed, outside))
        else:
            come = "once" if case.most_visits == 1 else f"1 to {case.most_visits} times"
            width = f"{sum(each.width for each in all_of) / len(all_of):.4f}"
            alike.append((case.kind, come, str(case.share), str(len(all_of)), outside, width))
    once = [each.outside for case, all_of in played.items() for each in all_of if case[3:] == (ACTS, 1)]
    if once:
        alike.append(("all", "once", "", str(len(once)), _share(once), ""))
    ended = f"No difference: ever outside within {ACTS:,} acts, looked at each {LOOK}"
    head = ("learner", "visitors come", "share", "sessions", "ever outside", "half the interval then")
    found = "One arm of five is twice as good: acts until the learner is found better"
    head_found = ("rate of the others", "share", "sessions", "a quarter", "half", "three quarters", "ever outside")
    return [(ended, head, alike), (found, head_found, better)]


def section(played: Mapping[Case, Sequence[Played]]) -> str:
    """Return the tables as a page has them."""
    parts = []
    for title, head, rows in tables(played):
        lines = [head, ["---"] * len(head), *rows]
        parts += [f"{title}:", "\n".join(f"| {' | '.join(line)} |" for line in lines)]
    return "\n\n".join(parts)
