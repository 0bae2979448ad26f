"""``evaluate``: what a decision log says of each arm, and of policies that did not act, with intervals."""

from __future__ import annotations

import argparse
import csv
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from ..flag_parser import FlagParser
from ..row_files import FORMATS, LogFileError, parquet_module, piped
from .delays import MIN_EFFECTIVE, Floats, Interval, widest
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


def policies(outcomes: Outcomes, confidence: float) -> Iterator[Estimate]:
    """Yield the value of uniform play, and of each arm played whenever it could be.

    Parameters
    ----------
    outcomes : what was logged of settled decisions, with the probabilities of what was drawn
    confidence : of the intervals, in (0, 1); they hold as the number of acts grows

    Notes
    -----
    IPS weighs each act by the policy's probability of it over that of the log (Horvitz and Thompson 1952); SNIPS
    divides by the sum of weights (Swaminathan and Joachims 2015), the effective sample size is Kish's (1965).
    Acts of a control group are weighed alike: each probability is that within its act's own group. Intervals are
    normal; with two values, or of acts that all ended alike, they have the wider ends of that and Wilson's (1927).
    """
    uniform = 1 / (outcomes.eligible * outcomes.probabilities)
    yield _value("uniform", uniform, outcomes, confidence)
    for arm in np.unique(outcomes.arms):
        weights = (outcomes.arms == arm) / outcomes.probabilities
        yield _value(outcomes.name(int(arm)), weights, outcomes, confidence)


def _value(name: str, weights: Floats, outcomes: Outcomes, confidence: float) -> Estimate:
    acts, total, values = int(np.count_nonzero(weights)), float(weights.sum()), outcomes.values
    if outcomes.spread is not None:
        effective, interval = outcomes.spread.value(weights, values, _z(confidence))
        return Estimate(name, acts, effective, interval, interval)
    effective = total**2 / float((weights**2).sum()) if acts else 0.0
    if effective < MIN_EFFECTIVE:
        return Estimate(name, acts, effective, None)
    terms, z, kinds = weights * values, _z(confidence), np.unique(values)
    mean = float(terms.sum() / total)
    error = float(np.sqrt((weights**2 * (values - mean) ** 2).sum()) / total)
    # Acts that all ended alike have no spread of their own: they might have ended as others did.
    seen = kinds if kinds.size == 2 or error <= ROUNDING * np.ptp(kinds) else kinds[:1]
    ips = float(terms.mean()), float(terms.std(ddof=1) / np.sqrt(terms.size))
    both = (widest(*each, seen, effective, z) for each in (ips, (mean, error)))
    return Estimate(name, acts, effective, *both)


def _z(confidence: float) -> float:
    return NormalDist().inv_cdf((1 + confidence) / 2)


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


def main(arguments: Sequence[str], program: str) -> int:
    """Evaluate a decision log, print what it says, and return the exit code of the process."""
    options = parser(program).parse_args(arguments)
    try:
        with piped(options.file) as path:
            entries = read_entries(path, options.format)
            outcomes = match(entries, options.segment, window=options.window, allow_gaps=options.allow_gaps)
        if options.columns is not None:
            write_columns(outcomes, options.columns, options.loss_range and tuple(options.loss_range))
    except (LogFileError, ValueError, OSError) as error:
        sys.stderr.write(f"{program} evaluate: {error}\n")
        return CANNOT_READ
    means = list(arm_means(outcomes, options.confidence))
    values = list(policies(outcomes, options.confidence)) if outcomes.arms.size else []
    if options.json:
        sys.stdout.write(json.dumps(_document(outcomes, means, values), allow_nan=False) + "\n")
    else:
        sys.stdout.write("\n".join(_report(outcomes, means, values, options.confidence)) + "\n")
    return 0


def parser(program: str) -> FlagParser:
    """Return the parser of the command line after the word ``evaluate``, which follows ``program``."""
    made = FlagParser(
        f"{program} evaluate",
        description="What a decision log says: the mean of each arm, and what uniform play and each arm alone "
        "would have given, by inverse propensity, with intervals.",
    )
    made.add_argument("file", help="the log, as GET .../decisions answers it; -: JSON lines of standard input")
    made.add_argument("--format", choices=FORMATS, help="by default that of the file's name")
    made.add_argument("--confidence", type=_share, default=0.95, help="of the intervals (0.95)")
    made.add_argument("--segment", metavar="TEXT", help="acts of one segment only; '' for those that named none")
    made.add_argument("--window", type=float, metavar="SECONDS", help="window, if the log does not say it; 0: none")
    made.add_argument("--allow-gaps", action="store_true", help="read a log in which entries are missing")
    made.add_argument("--json", action="store_true", help="print JSON")
    made.add_argument(
        "--columns", type=Path, metavar="OUT", help="write action, reward, pscore, position (.csv, .npz, .parquet)"
    )
    made.add_argument(
        "--loss-range", type=float, nargs=2, metavar=("BEST", "WORST"), help="for --columns of a log of losses"
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
        "policies": [known(each) | {"ips": shown(each.ips), "snips": shown(each.snips)} for each in values],
    }


def _report(
    outcomes: Outcomes, means: Sequence[Estimate], values: Sequence[Estimate], confidence: float
) -> Iterable[str]:
    how = "" if outcomes.spread is None else f" (slots: {outcomes.slots})"
    yield f"{outcomes.arms.size} acts with a {outcomes.word}{how}"
    for why, count in outcomes.left_out.items():
        yield f"{count} acts left out: {why}"
    if not means:
        yield f"\n{NOT_ENOUGH}"
        return
    yield f"\nmean {outcomes.word} by arm, {confidence:.0%} interval"
    for each in means:
        yield f"  {each.name:<24} {each.acts:>9} acts  {_shown(each.ips)}"
    yield f"\nmean {outcomes.word} of other policies, {confidence:.0%} interval: IPS, and self-normalised"
    for each in values:
        yield f"  {each.name:<24} {each.effective:>9.0f} effective acts  {_shown(each.ips)}  {_shown(each.snips)}"
    yield "\nAn arm alone: as if it had been drawn at each act; say so only where it could be drawn at each."


def _shown(interval: Interval | None) -> str:
    if interval is None:
        return NOT_ENOUGH
    return f"{interval.value:.4g} [{interval.low:.4g}, {interval.high:.4g}]"
