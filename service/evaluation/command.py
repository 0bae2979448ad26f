"""The command line of ``evaluate``."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from ..command_line import FlagParserFlagParser as FlagParser
from .columns import write_columns
from .estimates import Estimate, Interval, arm_means, as_json, policies
from .log_files import FORMATS, LogFileError, read_entries
from .outcomes import Outcomes, match

CANNOT_READ = 1
"""Exit code if the log can't be read or the columns can't be written."""
NOT_ENOUGH = "not enough data"


def main(arguments: Sequence[str], program: str) -> int:
    """Evaluate a decision log and print what it says.

    Parameters
    ----------
    arguments : of the command line, after the word ``evaluate``
    program : what the word follows

    Returns
    -------
    The exit code of the process.
    """
    options = parser(program).parse_args(arguments)
    try:
        outcomes = match(read_entries(options.file, options.format), options.segment)
        if options.columns is not None:
            write_columns(outcomes, options.columns, options.loss_range and tuple(options.loss_range))
    except (LogFileError, ValueError, OSError) as error:
        sys.stderr.write(f"{program} evaluate: {error}\n")
        return CANNOT_READ
    means = list(arm_means(outcomes, options.confidence))
    values = list(policies(outcomes, options.confidence)) if outcomes.arms.size else []
    if options.json:
        sys.stdout.write(json.dumps(_document(outcomes, means, values)) + "\n")
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
    made.add_argument("file", type=Path, help="the log: entries as GET .../decisions answers them")
    made.add_argument("--format", choices=FORMATS, help="by default that of the file's name")
    made.add_argument("--confidence", type=_share, default=0.95, help="of the intervals (0.95)")
    made.add_argument("--segment", metavar="TEXT", help="acts of one segment only; '' for those that named none")
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
    arms = [{name: value for name, value in as_json(each).items() if name != "snips"} for each in means]
    return {
        "acts": int(outcomes.arms.size),
        "left_out": outcomes.left_out,
        "of": outcomes.word,
        "arms": [{**{"mean" if name == "ips" else name: value for name, value in arm.items()}} for arm in arms],
        "policies": [as_json(each) for each in values],
    }


def _report(
    outcomes: Outcomes, means: Sequence[Estimate], values: Sequence[Estimate], confidence: float
) -> Iterable[str]:
    yield f"{outcomes.arms.size} acts with a {outcomes.word}"
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
