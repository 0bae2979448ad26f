"""``sessions``: list, show, create, pause, resume and delete sessions of a service; ``verdict`` and ``compare``."""

from __future__ import annotations

import argparse
import itertools
import json
import math
import sys
import time
from collections.abc import Callable, Iterator, Mapping
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
    made.add_argument("--window", type=float, metavar="SECONDS", help="how long a click may come; none counts as 0")
    made.add_argument("--spec", type=Path, metavar="FILE", help="JSON of POST /v1/sessions, in place of flags")
    safe = "show arms no more, until `resume`: all but a safe one, to stop a session at once"
    for name, does in (("pause", safe), ("resume", "let paused arms be shown again")):
        changed = _word(words, name, _change, does)
        changed.add_argument("arms", nargs="+", metavar="ARM", help="labels")
    log = _word(words, "decisions", _decisions, "the decision log as JSON lines, such as `evaluate` reads")
    log.add_argument("--follow", action="store_true", help="go on with what comes, until you interrupt it")
    deleted = _word(words, "delete", _delete, "delete a session and all it has learned")
    deleted.add_argument("--yes", action="store_true", help="don't ask")


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
    columns = ("session", "learner", "arms", "in use", "acts", "outstanding", "last event", "hints")
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
        screen.say("outstanding: acts that wait for an event; the mean lies between low and high, 95 % sure")
    if leader := view.fields.get("leader"):
        how = "clearly" if leader["clear"] else "not clearly yet"
        screen.say(f"most probable: {leader.get('label', leader['arm'])}, {how} better than every other arm")
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
    made: dict[str, Any] = {"learner": {"kind": "multiscale_tsallis", "arms": options.arms}, "reward_range": [0, 1]}
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
    for entry in entries:
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
                if "missed" in page:
                    sys.stderr.write("entries were trimmed away before they were read\n")
                yield from page["decisions"]
                cursor = page["cursor"]
        except (NoAnswerError, UnavailableError) as error:
            if not is_away:
                sys.stderr.write(f"{error}; trying again\n")
            is_away = True
            time.sleep(RETRY_SECONDS)


def _delete(options: argparse.Namespace, screen: Screen, bandits: Bandits) -> int:
    if not options.yes:
        if not sys.stdin.isatty():
            raise CommandError("there is no terminal to ask on: say --yes")
        if input(f"Delete {options.session_id} and all it has learned? [y/N] ").strip().lower() != "y":
            return 1
    view = bandits.sessions.get(options.session_id)
    bandits.sessions.delete(options.session_id)
    screen.tell({"deleted": view.session_id}, f"deleted {view.session_id}, which had {view.slot:,} acts")
    return 0


SESSIONS = Command(_add_arguments, _run)


# -- ``verdict`` and ``compare``: whether a learner is better than its control, by how much, and how sure that is.

FIRST = 200
"""Acts of both groups together from which on there is a verdict."""
GROUPS = "learner", "control"
FIELDS = ("session_id", "halted_at", "groups", "verdict", "leader")
URGENT = {"halted", "silence"}
"""Hints that come before any verdict."""
NO_CONTROL = (
    "{id} has no control group, so nobody knows its gain. With one, one act in ten is drawn by chance, and after "
    "200 acts there is a verdict: "
    "curl -X PATCH -H 'Content-Type: application/json' {url}/v1/sessions/{id} "
    """-d '{{"control": {{"share": 0.1}}}}'"""
)

OVER_POINTS = "{id} is a session over points, and has no verdict: control groups are for sessions over arms."


def difference(verdict: Mapping[str, Any], view: SessionView) -> str:
    """Return such as "better by 3.2 points, between 2.1 and 4.3": a point is a hundredth of a range from 0 to 1."""
    scale, unit = (100, " points") if sorted(view[f"{view.outcome_field}_range"]) == [0, 1] else (1, "")
    scale = -scale if verdict["is"] == "worse" else scale
    low, middle, high = sorted(scale * verdict[name] for name in ("low", "difference", "high"))
    digits = max(1, 1 - math.floor(math.log10(high - low or 1)))
    word = "unclear:" if verdict["is"] == "unclear" else f"{verdict['is']} by"
    return f"{word} {middle:z.{digits}f}{unit}, between {low:z.{digits}f} and {high:z.{digits}f}"


def sentences(
    groups: Mapping[str, Mapping[str, Any]],
    verdict: Mapping[str, Any] | None,
    view: SessionView,
    names: tuple[str, str] = ("the learner", "the control"),
) -> str:
    """Return what is known of a learner and its control, in two sentences.

    Parameters
    ----------
    groups, verdict : as the service says them
    view : of the session, or of one of two with the same range
    names : of the learner, and of its control
    """
    (learner, control), word = names, view.outcome_field
    acts = [groups[group]["acts"] for group in GROUPS]
    counted = f"{acts[0]:,} acts of {learner} and {acts[1]:,} of {control}"
    if verdict is None:
        has_default = (view.fields.get("expiry") or {}).get(f"default_{word}") is not None
        what = "acts" if has_default else "acts whose outcome is known"
        since = " since the halt" if has_default and all(acts) and sum(acts) >= FIRST else ""
        needs = f"{FIRST} {what}{since}, some of each group"
        return f"There is no verdict yet: it needs {needs}. So far there were {counted}."
    is_clear, lift = verdict["is"] != "unclear", verdict["lift"]
    more = f" ({100 * abs(lift):.1f} % {verdict['is']})" if is_clear and lift is not None else ""
    means = " against ".join(f"{groups[group][f'mean_{word}']:.4g}" for group in GROUPS)
    return (
        f"Compared with {control}, {'' if is_clear else 'the gain of '}{learner} is {difference(verdict, view)} "
        f"({100 * verdict['confidence']:.0f} % sure). "
        f"That is a mean {word} of {means}{more}, from {counted}."
    )


def _add_session(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("session_id", metavar="SESSION", help="id of a session with a control group")
    add_service_flags(parser)


def _verdict(options: argparse.Namespace, screen: Screen) -> int:
    """Say whether a session is better than its control group: acts that are drawn without the learner."""
    with client_of(options) as bandits:
        view = bandits.session(options.session_id).view()
    urgent = [hint for hint in view.fields.get("hints", ()) if hint["code"] in URGENT]
    if view.groups is None:
        text = OVER_POINTS if view.learner.get("dim") is not None else NO_CONTROL
        text = text.format(id=view.session_id, url=options.url.rstrip("/"))
    else:
        text = sentences(view.groups, view.verdict, view)
    said = {name: view.fields.get(name) for name in FIELDS} | {"hints": urgent}
    screen.tell(said, "\n".join([*(f"{hint['code']}: {hint['message']}" for hint in urgent), text]))
    return 0


def _add_sessions(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("learner", metavar="SESSION", help="id of the session in question")
    parser.add_argument("control", metavar="CONTROL", help="id of the session that it is compared with")
    add_service_flags(parser)


def _compare(options: argparse.Namespace, screen: Screen) -> int:
    """Say whether one session is better than another."""
    names = options.learner, options.control
    with client_of(options) as bandits:
        found, view = bandits.compare(*names), bandits.session(options.learner).view()
    screen.tell(found, sentences(found["groups"], found["verdict"], view, names))
    return 0


VERDICT = Command(_add_session, _verdict)
COMPARE = Command(_add_sessions, _compare)
