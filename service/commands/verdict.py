"""``verdict`` and ``compare``: whether a learner is better than its control, by how much, and how sure that is."""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping
from typing import Any

from ..client import SessionView
from .run import Command, Screen, add_service_flags, client_of

FIRST = 200
"""Acts of both groups together from which on there is a verdict."""
GROUPS = "learner", "control"
FIELDS = ("session_id", "halted_at", "groups", "verdict", "leader")
URGENT = {"halted", "silence"}
"""Hints that come before any verdict."""
NO_CONTROL = (
    "{id} has no control group, so nobody knows its gain. Give it one, and 200 acts later there is a verdict: "
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
    """Say whether a session is better than its control group."""
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
