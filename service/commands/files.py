"""``export`` and ``import``: whole sessions to files and from them; ``feed``: events of a file to sessions.

A file holds a session's document; its bytes stay as the service wrote them. Rows of events without an id get one of
the file's digest and their number: a second run counts nothing twice.
"""

import argparse
import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from ..client import ApiError, ConflictError, NoAnswerError, PermissionDeniedError
from ..client.calls import COUNTS, answer_of, encode
from ..row_files import FORMATS, WRONG, LogFileError, digest_of, form_of, is_absent, piped, read_cell, read_rows
from .run import Command, CommandError, Screen, add_service_flags, client_of, http_client

SUFFIX = ".session.json"
SECONDS = 600.0
"""For one document: it may have 200 MB."""


def _add_export_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("sessions", nargs="*", metavar="SESSION", help="ids of sessions")
    parser.add_argument("--all", action="store_true", help="all sessions of the service")
    parser.add_argument("--to", type=Path, default=Path(), metavar="FOLDER", help="where to write (here)")
    add_service_flags(parser)


def _export(options: argparse.Namespace, screen: Screen) -> int:
    """Write sessions to files, ID.session.json each: state, counts and the ids of events.

    Neither the decision log nor stored answers are in them. The files hold the seeds: keep them secret.
    """
    if bool(options.sessions) == options.all:
        raise CommandError("name sessions, or all of them with --all")
    names = options.sessions
    if options.all:
        with client_of(options) as bandits:
            names = [view.session_id for view in bandits.sessions.list(limit=1000)]
    options.to.mkdir(parents=True, exist_ok=True, mode=0o700)
    files = [options.to / f"{name}{SUFFIX}" for name in names]
    with screen.progress(len(names), "exported") as advance, _service_at(options.url) as http:
        for done, (name, file) in enumerate(zip(names, files, strict=True)):
            try:
                _export_to(http, name, file)
            except ApiError as error:
                if len(names) == 1 or isinstance(error, PermissionDeniedError):
                    raise
                raise CommandError(f"{name}: {error}; {done} were exported before it") from error
            advance()
    exported = [{"session_id": name, "file": str(file)} for name, file in zip(names, files, strict=True)]
    screen.tell({"exported": exported}, f"{len(files)} sessions exported to {options.to.absolute()}")
    return 0


def _export_to(http: httpx.Client, session_id: str, target: Path) -> None:
    """Write the document of a session to a file, which appears whole or not at all."""
    begun = target.with_suffix(".part")
    with http.stream("GET", f"/v1/sessions/{session_id}/export") as response:
        if not response.is_success:
            _answer(response)  # Which raises.
        with begun.open("wb") as file:
            for part in response.iter_bytes():
                file.write(part)
            file.flush()
            os.fsync(file.fileno())
    begun.replace(target)


def _add_import_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help=f"files, or folders of *{SUFFIX}")
    parser.add_argument("--skip-present", action="store_true", help="leave sessions alone that exist already")
    add_service_flags(parser)


def _import(options: argparse.Namespace, screen: Screen) -> int:
    """Create sessions from files that `export` wrote; each goes on as it was. None may exist already."""
    files: list[Path] = []
    for path in options.files:
        found = sorted(path.glob(f"*{SUFFIX}")) if path.is_dir() else [path]
        if not found:
            raise CommandError(f"{path} has no *{SUFFIX}")
        files += found
    done, skipped = [], []
    headers = {"Content-Type": "application/json"}
    with screen.progress(len(files), "imported") as advance, _service_at(options.url) as http:
        for file in files:
            response = http.post("/v1/sessions/import", content=file.read_bytes(), headers=headers)
            try:
                done.append(_answer(response)["session_id"])
            except ConflictError as error:
                if not options.skip_present:
                    raise CommandError(f"{file}: {error}; {len(done)} were imported before it") from error
                skipped.append(file.name.removesuffix(SUFFIX))
            advance()
    text = f"{len(done)} sessions imported" + (f", {len(skipped)} were there" if skipped else "")
    screen.tell({"imported": done, "skipped": skipped}, text)
    return 0


@contextmanager
def _service_at(url: str) -> Iterator[httpx.Client]:
    with http_client(url, SECONDS) as http:
        try:
            yield http
        except httpx.HTTPError as error:
            raise NoAnswerError(f"{http.base_url}: {type(error).__name__}: {error}") from error


def _answer(response: httpx.Response) -> Any:
    return answer_of(str(response.url), response.status_code, response.headers, response.read())


EXPORT = Command(_add_export_arguments, _export)
IMPORT = Command(_add_import_arguments, _import)


# -- Events of a file, or of standard input.

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
    **dict.fromkeys(("losses", "gradient", "features"), lambda it: json.loads(it) if isinstance(it, str) else it),
    "void": lambda value: {"true": True, "1": True, "false": None, "0": None}[str(value).lower()],
}
"""Fields of events, and how each is read from the cell of a table; None stands for one that is not there."""


def _add_feed_arguments(parser: argparse.ArgumentParser) -> None:
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


def _feed(options: argparse.Namespace, screen: Screen) -> int:
    """Report the events of a file: csv, tsv, JSON lines or parquet, packed with gzip or not.

    Columns are named like the fields of events. A row without event_id gets one of the file's digest and its
    number: the same file may be fed twice. Wrong rows are named, by their number without the header, and left out;
    the others count. Feed mended rows from a file of their own, unless all rows have an event_id. Exit code 1: rows
    were wrong.
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
    """Return the renamed columns that no row has."""
    absent = set(options.rename)
    for _, _, value in read_rows(path, options.format) if absent else ():
        absent -= value.keys() if isinstance(value, dict) else set()
        if not absent:
            break
    return sorted(absent)


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
            if (size := len(encode(event))) > BATCH_BYTES:
                raise ValueError(f"must have {BATCH_BYTES:,} bytes of JSON at most")
            yield number, event, size
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


FEED = Command(_add_feed_arguments, _feed)
