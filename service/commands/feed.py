"""``feed``: events of a file, or of standard input, to the sessions that its rows name.

Rows without an id get one of the file's digest and their number: a second run counts nothing twice.
"""

import argparse
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ..client.calls import COUNTS, encode
from ..row_files import FORMATS, WRONG, LogFileError, digest_of, form_of, is_absent, piped, read_cell, read_rows
from .run import Command, CommandError, Screen, add_service_flags, client_of

BATCH, BATCH_BYTES = 1000, 1_000_000
"""Events of one call, and their JSON."""
SHOWN = 20
"""Wrong rows that are printed."""
CANNOT_READ = 2


def _whole(value: Any) -> int:
    if not (number := float(value)).is_integer():
        raise ValueError
    return int(number)


READERS: Mapping[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("session_id", "label", "segment", "group", "event_id", "goal", "token"), str),
    **dict.fromkeys(("arm", "slot"), _whole),
    **dict.fromkeys(("loss", "reward"), float),
    **dict.fromkeys(("losses", "gradient"), lambda value: json.loads(value) if isinstance(value, str) else value),
    "void": lambda value: {"true": True, "1": True, "false": None, "0": None}[str(value).lower()],
}
"""Fields of events, and how each is read from the cell of a table; None stands for one that is not there."""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="a table or JSON lines, or - for JSON lines of standard input")
    parser.add_argument("--format", choices=FORMATS, help="by default that of the file's name")
    parser.add_argument("--session", metavar="SESSION", help="of all events; by default that in session_id")
    named = "columns with other names than fields"
    parser.add_argument("--rename", type=_renames, default={}, metavar="FIELD=COLUMN,...", help=named)
    add_service_flags(parser)


def _renames(text: str) -> dict[str, str]:
    named = dict(pair.partition("=")[::2] for pair in text.split(","))
    if wrong := sorted(field for field, column in named.items() if field not in READERS or not column):
        raise argparse.ArgumentTypeError(f"{', '.join(wrong)}: say FIELD=COLUMN, FIELD one of {', '.join(READERS)}")
    return {column: field for field, column in named.items()}


def _run(options: argparse.Namespace, screen: Screen) -> int:
    """Report the events of a file: csv, tsv, JSON lines or parquet, packed with gzip or not.

    Columns are named like the fields of events. A row without event_id gets one of the file's digest and its
    number. Exit code 1: rows were wrong.
    """
    counts, wrong, left_out = Counter[str](), dict[int, str](), set[str]()
    try:
        with piped(options.file) as path, client_of(options) as bandits, screen.progress(None, "events") as advance:
            if absent := _absent(path, options):
                raise CommandError(f"--rename: the file has no column {', '.join(absent)}", CANNOT_READ)
            for batch in _batches(_events(path, options, wrong, left_out)):
                settled = bandits.feedbacks([event for _, event, _ in batch])
                counts.update({name: getattr(settled, name) for name in COUNTS})
                told = {each["index"]: f"{each.get('field', 'row')}: {each['message']}" for each in settled.errors}
                wrong |= {batch[index][0]: told.get(index, "wrong") for index in settled.invalid_indexes}
                for _ in batch:
                    advance()
    except LogFileError as error:
        raise CommandError(str(error), CANNOT_READ) from error
    fields: dict[str, Any] = {name: counts[name] for name in COUNTS} | {"invalid": len(wrong)}
    named = [f"row {row}: {message}" for row, message in sorted(wrong.items())]
    lines = [", ".join(f"{fields[name]:,} {name}" for name in COUNTS if fields[name] or name in COUNTS[:2])]
    lines += named[:SHOWN] + ([f"and {len(wrong) - SHOWN:,} more wrong rows"] if len(wrong) > SHOWN else [])
    lines += [f"columns left out: {', '.join(sorted(left_out))}"] if left_out else []
    fields["wrong_rows"] = [{"row": row, "message": message} for row, message in sorted(wrong.items())]
    screen.tell(fields | {"left_out": sorted(left_out)}, "\n".join(lines))
    return 1 if wrong else 0


def _absent(path: Path, options: argparse.Namespace) -> list[str]:
    """Return the renamed columns that no row has; none of a file without rows."""
    absent, is_empty = set(options.rename), True
    for _, _, value in read_rows(path, options.format) if absent else ():
        absent, is_empty = absent.difference(value if isinstance(value, dict) else ()), False
        if not absent:
            break
    return [] if is_empty else sorted(absent)


def _events(
    path: Path, options: argparse.Namespace, wrong: dict[int, str], left_out: set[str]
) -> Iterator[tuple[int, dict[str, Any], int]]:
    """Yield rows' numbers, events and bytes; note what is wrong with others, and unknown columns."""
    form, renames, digest = form_of(path, options.format), options.rename, digest_of(path)
    is_table = form in {"csv", "tsv", "parquet"}
    for number, _, value in read_rows(path, form):
        try:
            if not isinstance(value, dict):
                raise value if isinstance(value, Exception) else ValueError("must be a JSON object")
            cells = {name: cell for name, cell in value.items() if name not in (*renames, *renames.values())}
            cells |= {field: value[column] for column, field in renames.items() if column in value}
            left_out |= cells.keys() - READERS.keys()
            event = {name: cells[name] for name in READERS if name in cells}
            if is_table:
                given = {name: cell for name, cell in event.items() if not is_absent(name, cell)}
                read = {name: read_cell(READERS, name, cell) for name, cell in given.items()}
                event = {name: cell for name, cell in read.items() if cell is not None}
            event |= {} if options.session is None else {"session_id": options.session}
            event |= {"event_id": f"{digest}-{number}"} if event.get("event_id") is None else {}
            yield number, event, len(encode(event))
        except WRONG as error:
            wrong[number] = str(error)


def _batches(events: Iterator[tuple[int, Any, int]]) -> Iterator[list[tuple[int, Any, int]]]:
    batch, size = list[tuple[int, Any, int]](), 0
    for each in events:
        size += each[2]
        if batch and (len(batch) >= BATCH or size > BATCH_BYTES):
            yield batch
            batch, size = [], each[2]
        batch.append(each)
    if batch:
        yield batch


FEED = Command(_add_arguments, _run)
