"""``evaluate``: what a decision log says of each arm, and of policies that did not act, with intervals."""

from __future__ import annotations

import argparse
import csv
import json
import math
import sys
from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..flag_parser import FlagParser
from ..row_files import FORMATS, LogFileError, parquet_module, piped
from .delays import MIN_EFFECTIVE, TINY, Floats, Interval, widest
from .logs import ROUNDING, Outcomes, match, read_entries


class Estimate(NamedTuple):
    """What is known of an arm's mean, or of a policy's value."""

    name: str
    acts: int
    """Acts that it rests on: those to which the policy gives a weight."""
    effective: float
    """Effective sample size: as many acts of the policy's own would tell as much."""
    ips: Interval | None
    """Inverse propensity score; for an arm's mean, the mean. None where there is not enough data."""
    snips: Interval | None = None
    """Self-normalised, as ``ips`` is too where events name no slot; None where there is not enough data."""
    dr: Interval | None = None
    """Doubly robust; None also where the log has no columns of visitors, or not each act could draw each arm."""


def arm_means(outcomes: Outcomes, confidence: float) -> Iterator[Estimate]:
    """Yield the mean of each arm over its acts, in the order of the arms.

    Parameters
    ----------
    outcomes : what was logged of settled decisions
    confidence : of the intervals, in (0, 1)
    """
    for arm in np.unique(outcomes.arms):
        found = _value(outcomes.name(int(arm)), (outcomes.arms == arm) * 1.0, outcomes, confidence)
        yield found._replace(ips=found.snips, snips=None)


RIDGE, FOLDS = 10.0, 10
"""Of the regressions of doubly robust estimates: those of the learner have the same penalty."""
MOST_ARMED = 0.05
"""Share of events that may name the arm alone: which visitor they are of has to be known."""


def policies(outcomes: Outcomes, confidence: float, *, linear: bool = False) -> Iterator[Estimate]:
    """Yield the value of uniform play, of each arm played whenever it could be, and of a linear policy.

    Parameters
    ----------
    outcomes : what was logged of settled decisions, with the probabilities of what was drawn
    confidence : of the intervals, in (0, 1); they hold as the number of acts grows
    linear : whether to add the policy that plays the arm of the best prediction, from acts at other times

    Raises
    ------
    LogFileError
        if ``linear`` asks for what the log can't say.

    Notes
    -----
    IPS weighs each act by the policy's probability of it over that of the log (Horvitz and Thompson 1952); SNIPS
    divides by the sum of weights (Swaminathan and Joachims 2015), the effective sample size is Kish's (1965).
    Acts of a control group are weighed alike: each probability is that within its act's own group. Intervals are
    normal; with two values, or of acts that all ended alike, they have the wider ends of that and Wilson's (1927).
    DR (Dudik, Langford and Li 2011) adds weighed errors to a prediction of the policy's value, by a ridge
    regression of each arm's outcomes on the visitor's columns, around the mean of all. Of ten parts of the log, in
    their order of time, each is predicted from the nine others (Chernozhukov et al. 2018). An event that names no
    slot is of the acts with its columns, in shares, or else of its arm's; each act counts as far as it is known.
    """
    arms = np.unique(outcomes.arms)
    why = ""
    if outcomes.columns is None:
        why = "columns of visitors, as a decision log with `features` has them"
    elif outcomes.armed > MOST_ARMED:
        why = "events that name their slots or say their features, but for one in twenty"
    elif (outcomes.eligible != arms.size).any():
        why = "that each act could draw each arm of the log"
    if why and linear:
        raise LogFileError(f"--policy linear needs {why}")
    x, p, known = None if why else outcomes.columns, outcomes.probabilities, outcomes.known()
    own, mean, best, chosen = np.zeros((4, outcomes.arms.size))
    best, sign, alone = best - np.inf, 1 if outcomes.is_larger_better else -1, list[Estimate]()
    for arm in arms:
        is_own, predicted = outcomes.arms == arm, own
        if x is not None:
            predicted = _predicted(x, known, is_own)
            own[is_own], mean = predicted[is_own], mean + predicted / arms.size
            chosen, best = np.where(sign * predicted > best, arm, chosen), np.maximum(sign * predicted, best)
        direct = None if why else (predicted, own, *known)
        alone.append(_value(outcomes.name(int(arm)), is_own / p, outcomes, confidence, direct))
    direct = None if why else (mean, own, *known)
    yield _value("uniform", 1 / (outcomes.eligible * p), outcomes, confidence, direct)
    yield from alone
    if linear:
        yield _value("linear", (chosen == outcomes.arms) / p, outcomes, confidence, (sign * best, own, *known))


def _predicted(x: Floats, known: Floats, is_own: NDArray[np.bool_]) -> Floats:
    """Return what each act would have got with the arm of ``is_own``, as acts in the nine other parts say."""
    found, parts, (counts, sums, _) = np.empty(is_own.size), np.arange(is_own.size) * FOLDS // is_own.size, known
    for part in range(FOLDS):
        others, inside = parts != part, parts == part
        mean, other = sums[others].sum() / max(counts[others].sum(), TINY), is_own & others
        gram = x[other].T @ (counts[other, None] * x[other]) + RIDGE * np.eye(x.shape[1])
        rest = x[other].T @ (sums - counts * mean)[other]
        found[inside] = mean + x[inside] @ np.linalg.solve(gram, rest)
    return found


def _value(
    name: str, weights: Floats, outcomes: Outcomes, confidence: float, predicted: tuple[Floats, ...] | None = None
) -> Estimate:
    """Return the estimates of a policy.

    Parameters
    ----------
    weights : its probability of each act's arm over that of the log
    predicted : its value at each act, and that of the act's own arm, where regressions say it; and what is known
    """
    acts, values, z = int(np.count_nonzero(weights)), outcomes.values, NormalDist().inv_cdf((1 + confidence) / 2)
    if outcomes.spread is not None:
        effective, ips = outcomes.spread.value(weights, values, z)
        snips = ips
    else:
        total, terms, kinds = float(weights.sum()), weights * values, np.unique(values)
        effective = total**2 / float((weights**2).sum()) if acts else 0.0
        if effective < MIN_EFFECTIVE or kinds.size < 2:  # Alike: nobody knows how else an act may end.
            return Estimate(name, acts, effective, None)
        mean = float(terms.sum() / total)
        error = float(np.sqrt((weights**2 * (values - mean) ** 2).sum()) / total)
        # Acts that all ended alike have no spread of their own: they might have ended as others did.
        seen = kinds if kinds.size == 2 or error <= ROUNDING * np.ptp(kinds) else kinds[:1]
        ips = widest(float(terms.mean()), float(terms.std(ddof=1) / np.sqrt(terms.size)), seen, effective, z)
        snips = widest(mean, error, seen, effective, z)
    if ips is None or predicted is None:
        return Estimate(name, acts, effective, ips, snips)
    direct, own, counts, sums, squares = predicted
    total = float(counts.sum())
    mean = float((counts * direct + weights * (sums - counts * own)).sum()) / total
    rest = direct - mean - weights * own
    squared = float((counts * rest**2 + 2 * rest * weights * sums + weights**2 * squares).sum())
    ends = outcomes.seen(weights)
    seen = ends[:1] if np.ptp(ends) else outcomes.seen(np.ones(weights.size))
    robust = widest(mean, math.sqrt(max(squared, 0.0)) / total, seen, effective, z)
    return Estimate(name, acts, effective, ips, snips, robust)


# -- The columns that libraries for off-policy evaluation take: action, reward, pscore, position.


def write_columns(outcomes: Outcomes, path: Path, loss_range: tuple[float, float] | None) -> None:
    """Write a row for each act whose outcome is known, as .csv, .npz or .parquet by the file's name.

    The position is 0: each slot draws one arm for one place. Where events name no slot, the reward of an act is the
    default and its shares of the events that can be its own, and acts whose window has not ended are left out.

    Parameters
    ----------
    outcomes : the acts, as ``match`` returns them
    path : the file, which is written anew; parquet needs the extra ``export``
    loss_range : [best, worst] of a session of losses: its rewards are 1 for the best and 0 for the worst. None
        and a range alike leave rewards as they were posted.

    Raises
    ------
    LogFileError
        for another kind of file, parquet without pyarrow, losses without their range, a range that is not two
        different finite numbers, or events without slots in a session without a default.
    """
    outcomes = outcomes.settled()
    rewards = outcomes.values
    if outcomes.word == "loss":
        if loss_range is None:
            raise LogFileError("this is a log of losses: --loss-range BEST WORST says which reward a loss is")
        best, worst = loss_range
        if best == worst or not np.isfinite(loss_range).all():
            raise LogFileError("--loss-range: give two different numbers, the best loss and the worst")
        rewards = (rewards - worst) / (best - worst)
    positions = np.zeros(outcomes.arms.size, dtype=np.int64)
    columns = {"action": outcomes.arms, "reward": rewards, "pscore": outcomes.probabilities, "position": positions}
    if path.suffix == ".csv":
        with path.open("w", encoding="utf-8", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(columns)
            rows.writerows(zip(*(column.tolist() for column in columns.values()), strict=True))
    elif path.suffix == ".npz":
        with path.open("wb") as file:
            np.savez(file, **columns)  # type: ignore[arg-type]
    elif path.suffix == ".parquet":
        parquet_module().write_table(import_module("pyarrow").table(columns), path)
    else:
        raise LogFileError(f"{path}: columns are written as .csv, .npz or .parquet")


# -- The command line.

CANNOT_READ = 1
"""Exit code if the log can't be read or the columns can't be written."""
NOT_ENOUGH = "not enough data"
KINDS = ("ips", "snips", "dr")
"""Estimates of a policy: inverse propensity, self-normalised, doubly robust."""


def main(arguments: Sequence[str], program: str) -> int:
    """Evaluate a decision log, print what it says, and return the exit code of the process."""
    options = parser(program).parse_args(arguments)
    try:
        with piped(options.file) as path:
            entries = read_entries(path, options.format)
            outcomes = match(entries, options.segment, window=options.window, allow_gaps=options.allow_gaps)
        if options.columns is not None:
            write_columns(outcomes, options.columns, options.loss_range and tuple(options.loss_range))
        means, linear = list(arm_means(outcomes, options.confidence)), options.policy is not None
        values = list(policies(outcomes, options.confidence, linear=linear)) if means else []
    except (LogFileError, ValueError, OSError) as error:
        sys.stderr.write(f"{program} evaluate: {error}\n")
        return CANNOT_READ
    if options.json:
        sys.stdout.write(json.dumps(_document(outcomes, means, values), allow_nan=False) + "\n")
    else:
        sys.stdout.write("\n".join(_report(outcomes, means, values, options.confidence)) + "\n")
    return 0


def parser(program: str) -> FlagParser:
    """Return the parser of the command line after the word ``evaluate``, which follows ``program``."""
    made = FlagParser(
        f"{program} evaluate",
        description="What a decision log says, with intervals: the mean of each arm, and what arms by chance "
        "(uniform), or one arm alone, would have got. Acts count by their logged probabilities.",
    )
    made.add_argument("file", help="the log, as GET .../decisions answers it; -: JSON lines of standard input")
    made.add_argument("--format", choices=FORMATS, help="by default that of the file's name")
    made.add_argument("--confidence", type=_share, default=0.95, help="of the intervals (0.95)")
    made.add_argument("--segment", metavar="TEXT", help="acts of one segment only; '' for those that named none")
    made.add_argument("--policy", choices=["linear"], help="also each visitor's best arm, by its columns")
    made.add_argument("--window", type=float, metavar="SECONDS", help="expiry, if the log lacks it; 0: none")
    made.add_argument("--allow-gaps", action="store_true", help="read a log in which entries are missing")
    made.add_argument("--json", action="store_true", help="print JSON")
    made.add_argument(
        "--columns", type=Path, metavar="OUT", help="file to write, for libraries: action, reward, pscore, position"
    )
    made.add_argument(
        "--loss-range", type=float, nargs=2, metavar=("BEST", "WORST"), help="for --columns of losses"
    )
    return made


def _share(text: str) -> float:
    value = float(text)
    if not 0 < value < 1:
        raise argparse.ArgumentTypeError("must lie between 0 and 1")
    return value


def _document(outcomes: Outcomes, means: Iterable[Estimate], values: Iterable[Estimate]) -> dict[str, object]:
    def shown(interval: Interval | None) -> dict[str, float] | None:
        return None if interval is None else interval._asdict()

    def known(each: Estimate) -> dict[str, object]:
        return {"name": each.name, "acts": each.acts, "effective": round(each.effective, 1)}

    return {
        "acts": int(outcomes.arms.size),
        "left_out": outcomes.left_out,
        "of": outcomes.word,
        "slots": outcomes.slots,
        "arms": [known(each) | {"mean": shown(each.ips)} for each in means],
        "policies": [known(each) | {name: shown(getattr(each, name)) for name in KINDS} for each in values],
    }


def _report(
    outcomes: Outcomes, means: Sequence[Estimate], values: Sequence[Estimate], confidence: float
) -> Iterable[str]:
    how = "" if outcomes.spread is None else f" (slots: {outcomes.slots}, as not all events name their act)"
    yield f"{outcomes.arms.size} acts with a {outcomes.word}{how}"
    if outcomes.columns is not None and outcomes.armed:
        yield f"{outcomes.armed:.1%} of events say nothing of their visitor: other policies may come out too well"
    for why, count in outcomes.left_out.items():
        yield f"{count} acts left out: {why}"
    if not means:
        yield f"\n{NOT_ENOUGH}"
        return
    yield f"\nmean {outcomes.word} by arm, {confidence:.0%} interval"
    for each in means:
        yield f"  {each.name:<24} {each.acts:>9} acts  {_shown(each.ips)}"
    kinds = KINDS if any(each.dr for each in values) else KINDS[:2]
    yield f"\nmean {outcomes.word} of other policies, {confidence:.0%} interval: {', '.join(kinds).upper()}"
    for each in values:
        shown = "  ".join(_shown(getattr(each, name)) for name in kinds)
        yield f"  {each.name:<24} {each.effective:>9.0f} effective acts  {shown}"
    yield f"\nEffective acts: as many of a policy's own would tell as much; below {MIN_EFFECTIVE:.0f} are too few."
    yield "SNIPS varies less than IPS. An arm alone: as if each act had drawn it; trust it only if each act could."


def _shown(interval: Interval | None) -> str:
    if interval is None:
        return NOT_ENOUGH
    return f"{interval.value:.4g} [{interval.low:.4g}, {interval.high:.4g}]"
