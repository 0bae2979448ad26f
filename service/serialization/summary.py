"""What lists show of a session, kept beside its state so that no state is read for a list.

``about`` is what seldom changes, and is written only when it does; ``summary`` is written by every commit, and says
of which version it is: an older program writes none.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from pydantic_core import from_json, to_json

from ..engine.arm_run import ArmRun
from ..engine.hints import effective_arms, hints
from ..engine.run import Run
from ..engine.segment_run import SegmentRun

MAX_LISTED_LABELS = 100
"""Sessions with more labels are listed without them; their views have them all."""

MEAN_DIGITS = 12
"""Digits of a mean: those behind are of rounding."""

_JSON = json.JSONEncoder(separators=(",", ":"))


def about(chosen: Mapping[str, Any], run: Run) -> dict[str, Any]:
    """Return what seldom changes of a session's view.

    Parameters
    ----------
    chosen : the fields that clients choose beside the learner
    run : of the session, with its present arms
    """
    learner = run.params.learner.resolved()
    if isinstance(run, ArmRun):
        learner["n_arms"], learner["arms"] = len(run.arms.live), run.arms.shown_names
        if learner["arms"] is None:
            del learner["arms"]
    return {"learner": learner, **chosen}


def time_text(unix_seconds: float) -> str:
    """Return a time as views show it: RFC 3339 in UTC, to the millisecond."""
    return datetime.fromtimestamp(unix_seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def shown_mean(mean: float) -> float:
    """Return a mean as views and lists show it: without the last digits, which depend on the order of additions."""
    return float(f"{mean:.{MEAN_DIGITS}g}")


def counted(run: Run, *, mostly_surplus: bool = False) -> dict[str, Any]:
    """Return what every commit may change of a session's view; ``rates`` belong to the learner.

    Parameters
    ----------
    run : of the session
    mostly_surplus : whether most of the latest events answered no outstanding decision
    """
    ledger, losses = run.ledger, run.params.losses
    mean = (
        None
        if not ledger.losses
        else losses.posted(ledger.mean_loss)
        if isinstance(run, ArmRun)
        else ledger.mean_loss
    )
    return {
        "rates": run.learner.rates(run.state),
        "slot": ledger.slot,
        "feedbacks": ledger.feedbacks,
        "outstanding": ledger.outstanding,
        "expired": ledger.expired,
        "removed": ledger.removed,
        "voided": ledger.voided,
        "total_delay": ledger.total_delay,
        f"mean_{losses.word}": None if mean is None else shown_mean(mean),
        "last_act_at": time_text(ledger.last_act_at) if ledger.last_act_at else None,
        "last_event_at": time_text(ledger.last_event_at) if ledger.last_event_at else None,
        "hints": [hint._asdict() for hint in hints(run, mostly_surplus=mostly_surplus)],
        **({"segments": run.shared.kept} if isinstance(run, SegmentRun) else {}),
        **({"counted_from_slot": ledger.counted_from_slot} if ledger.counted_from_slot else {}),
    }


def effective_arms_of(run: Run) -> float | None:
    """Return how many arms the distribution shown to readers amounts to; None over points."""
    return effective_arms(run.probabilities) if isinstance(run, ArmRun) else None


def joined(about: Mapping[str, Any], counted: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a view, of its two parts.

    Parameters
    ----------
    about : as the function ``about`` gives it
    counted : as the function ``counted`` gives it
    """
    view = {**about, **counted}
    view["learner"] = {**view["learner"], **view.pop("rates")}
    return view


def encode_about(chosen: Mapping[str, Any], run: Run) -> bytes:
    """Return the bytes of what seldom changes, without what has many numbers or labels, one for each arm.

    Parameters
    ----------
    chosen : the fields that clients choose beside the learner
    run : of the session, with its present arms
    """
    return _JSON.encode(shortened(about(chosen, run))).encode()


def shortened(view: dict[str, Any]) -> dict[str, Any]:
    """Remove from a view, in place, what lists don't show: many numbers or labels, one for each arm."""
    for name in ("arms", "probabilities"):
        if len(view["learner"].get(name) or ()) > MAX_LISTED_LABELS:
            del view["learner"][name]
    return view


def encode_summary(
    run: Run, version: str, *, effective: float | None = None, mostly_surplus: bool = False
) -> bytes:
    """Return the bytes of what a commit changes, as of the version that it makes.

    Parameters
    ----------
    run : of the session, after the commit
    version : that the commit makes
    effective : ``effective_arms`` of a moment ago; None over points
    mostly_surplus : whether most of the latest events answered no outstanding decision
    """
    shown = counted(run, mostly_surplus=mostly_surplus)
    if effective is not None:
        shown["effective_arms"] = effective
    return to_json({"version": version, **shown})


def decode(about: bytes, summary: bytes, version: str) -> dict[str, Any] | None:
    """Read what lists show.

    Parameters
    ----------
    about : as ``encode_about`` wrote it; empty where an older program wrote none
    summary : as ``encode_summary`` wrote it; empty where an older program wrote none
    version : of the session now

    Returns
    -------
    The fields of a view; None where the bytes are not of this version, or not what this program writes.
    """
    try:
        seldom, often = from_json(about), from_json(summary)
        return joined(seldom, often) if often.pop("version") == version else None
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
