"""``sessions``: list, show, create, pause, resume and delete sessions of a service."""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from .. import decoded
from ..client import Bandits, NoAnswerError, Session, SessionView, UnavailableError
from ..flag_parser import WRONG_USE
from .run import Command, CommandError, Screen, add_service_flags, client_of

PAGE = 1000
"""Sessions asked for in one call."""
RETRY_SECONDS = 1
"""Pause before a service that was away is asked again for entries of a log."""
TOP, LONGEST = 10, 400
"""Arms that ``show`` prints, and characters of a field."""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the second words, each with its flags."""
    words = parser.add_subparsers(dest="word", required=True, metavar="WORD")
    listed = _word(words, "list", _list, "all sessions", with_id=False)
    listed.add_argument("--prefix", default="", help="only those whose id begins with this")
    _word(words, "show", _show, "one session: its counts, what hinders its learning, and its most likely arms")
    made = _word(words, "create", _create, "create a session; it may be there already with the same fields")
    made.add_argument("--arms", type=lambda text: text.split(","), help="labels, separated by commas")
    made.add_argument("--window", type=float, metavar="SECONDS", help="a decision without a click counts as 0")
    made.add_argument("--learner", default="multiscale_tsallis", help="kind of learner (multiscale_tsallis)")
    made.add_argument("--spec", type=Path, metavar="FILE", help="JSON of POST /v1/sessions, in place of flags")
    for name in ("pause", "resume"):
        changed = _word(words, name, _change, f"{name} arms of a session")
        changed.add_argument("arms", nargs="+", metavar="ARM", help="labels")
    log = _word(words, "decisions", _decisions, "the decision log as JSON lines, such as `evaluate` reads")
    log.add_argument("--limit", type=_count, help="at most so many entries")
    log.add_argument("--follow", action="store_true", help="go on with what comes, until you interrupt it")
    deleted = _word(words, "delete", _delete, "delete a session and all it has learned")
    deleted.add_argument("--yes", action="store_true", help="don't ask")


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError("must be a whole number, 0 or more")
    return int(text)


def _word(
    words: Any, name: str, run: Callable[..., int], text: str, with_id: bool = True
) -> argparse.ArgumentParser:
    made: argparse.ArgumentParser = words.add_parser(name, help=text, description=text, allow_abbrev=False)
    made.set_defaults(run=run)
    made.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="print JSON")
    if with_id:
        made.add_argument("session_id", metavar="SESSION", help="id of the session")
    add_service_flags(made)
    return made


def _run(options: argparse.Namespace, screen: Screen) -> int:
    """List, show, create, pause, resume and delete the sessions of a service."""
    with client_of(options) as bandits:
        return int(options.run(options, screen, bandits))


def _list(options: argparse.Namespace, screen: Screen, bandits: Bandits) -> int:
    found = []
    with screen.progress(None, "sessions") as advance:
        for view in bandits.sessions.list(limit=PAGE):
            advance()
            if view.session_id.startswith(options.prefix):
                found.append(view)
    if screen.as_json:
        screen.json({"sessions": [dict(view.fields) for view in found]})
        return 0
    columns = ("session", "learner", "arms", "in use", "slots", "open", "last event", "hints")
    screen.table(columns, map(_summary, found))
    return 0


def _summary(view: SessionView) -> tuple[object, ...]:
    fields, learner = view.fields, view.learner
    effective, last = fields.get("effective_arms"), fields.get("last_event_at")
    return (
        *(view.session_id, learner.get("kind"), learner.get("n_arms") or learner.get("dim")),
        *(None if effective is None else round(effective, 1), view.slot, view.outstanding),
        None if last is None else last[:16].replace("T", " "),
        fields.get("code") or ", ".join(hint["code"] for hint in fields.get("hints", [{"code": "damaged"}])),
    )


def _show(options: argparse.Namespace, screen: Screen, bandits: Bandits) -> int:
    session = bandits.session(options.session_id)
    view = session.view()
    if screen.as_json:
        screen.json(dict(view.fields))
        return 0
    cells = {
        name: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        for name, value in view.fields.items()
        if name != "probabilities" and value is not None
    }
    screen.table(("field", "value"), [cell for cell in cells.items() if len(cell[1]) <= LONGEST])
    for hint in view.fields.get("hints", ()):
        screen.say(f"{hint['code']}: {hint['message']}")
    if view.probabilities is not None:
        columns = ("arm", "probability", "acts", "outstanding", "feedbacks", "so far", "low", "high")
        found = itertools.islice(session.arms(sort="-probability", limit=TOP), TOP)
        arms = (each | {"so far": each["so_far"]["mean"]} for each in found)
        rows = [(each.get("label", each["arm"]), *(each[name] for name in columns[1:])) for each in arms]
        screen.table(columns, rows)
    return 0


def _create(options: argparse.Namespace, screen: Screen, bandits: Bandits) -> int:
    view = bandits.sessions.create(options.session_id, **_specification(options)).view()
    text = f"session {view.session_id}: {view.learner['kind']}, {len(view.arms) or 'unnamed'} arms or points"
    screen.tell(dict(view.fields), text)
    return 0


def _specification(options: argparse.Namespace) -> dict[str, Any]:
    if options.spec is not None:
        try:
            found = json.loads(decoded(options.spec.read_bytes()))
        except ValueError as error:
            raise CommandError(f"{options.spec} is no JSON: {error}", WRONG_USE) from error
        if not isinstance(found, dict):
            raise CommandError(f"{options.spec} is no JSON object")
        found.pop("session_id", None)
        return found
    if options.arms is None:
        raise CommandError("name the arms with --arms a,b,c, or everything with --spec FILE")
    made: dict[str, Any] = {"learner": {"kind": options.learner, "arms": options.arms}, "reward_range": [0, 1]}
    if options.window is not None:
        made["expiry"] = {"after_seconds": options.window, "default_reward": 0}
    return made


def _change(options: argparse.Namespace, screen: Screen, bandits: Bandits) -> int:
    """Pause or resume arms, as the second word says; 1 if the session has not all of them."""
    session = bandits.session(options.session_id)
    view = session.change_arms(**{options.word: options.arms})
    paused = ", ".join(view.fields.get("paused", [])) or "none"
    unknown = [json.dumps(label, ensure_ascii=False) for label in view.fields.get("unknown", ())]
    text = f"session {view.session_id}: {len(view.arms)} arms, paused: {paused}"
    screen.tell(dict(view.fields), text + (f"; it has no {', '.join(unknown)}" if unknown else ""))
    return 1 if unknown else 0


def _decisions(options: argparse.Namespace, screen: Screen, bandits: Bandits) -> int:
    session = bandits.session(options.session_id)
    entries = _followed(session) if options.follow else session.decisions(limit=PAGE)
    for entry in itertools.islice(entries, options.limit):
        screen.json(entry)
        if options.follow:
            sys.stdout.flush()
    return 0


def _followed(session: Session) -> Iterator[dict[str, Any]]:
    """Yield the entries of a log as they come, and go on behind the last one after the service was away."""
    cursor, is_away = None, False
    session.view()  # Which fails if the service was never there.
    while True:
        try:
            for page in session.follow(cursor, limit=PAGE):
                is_away = False
                yield from _told(page)
                cursor = page["cursor"]
        except (NoAnswerError, UnavailableError) as error:
            if not is_away:
                sys.stderr.write(f"{error}; trying again\n")
            is_away = True
            time.sleep(RETRY_SECONDS)


def _told(page: dict[str, Any]) -> list[dict[str, Any]]:
    if "missed" in page:
        sys.stderr.write("entries were trimmed away before they were read\n")
    return list(page["decisions"])


def _delete(options: argparse.Namespace, screen: Screen, bandits: Bandits) -> int:
    if not options.yes:
        if not sys.stdin.isatty():
            raise CommandError("there is no terminal to ask on: say --yes")
        if input(f"Delete {options.session_id} and all it has learned? [y/N] ").strip().lower() != "y":
            return 1
    view = bandits.sessions.get(options.session_id)
    bandits.sessions.delete(options.session_id)
    screen.tell({"deleted": view.session_id}, f"deleted {view.session_id}, which had {view.slot:,} slots")
    return 0


SESSIONS = Command(_add_arguments, _run)
