"""What lists show of a session, kept beside its state so that no state is read for a list.

``about`` is what seldom changes, and is written only when it does; ``summary`` is written by every commit, and says
of which version it is: an older program writes none. Beside states that 1.0 refuses it is shorter.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from pydantic_core import from_json, to_json

from ..engine.arm_run import ArmRun
from ..engine.hints import effective_arms, hints
from ..engine.run import Run
from ..engine.segment_run import SegmentRun
from . import compact_summary
from .shown import shown_mean, time_text
from .state import PACKED_COUNTS

MAX_LISTED_LABELS = 100
"""Sessions with more labels are listed without them; their views have them all."""

_NAMES = "summary"
"""In ``about``: names of the mean and the rates, and the mode of these, which a compact summary leaves out."""
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


def counted(run: Run, *, mostly_surplus: bool = False) -> dict[str, Any]:
    """Return what every commit may change of a session's view; ``rates`` belong to the learner.

    Parameters
    ----------
    run : of the session
    mostly_surplus : whether most of the latest events answered no outstanding decision
    """
    ledger = run.ledger
    return {
        "rates": run.learner.rates(run.state),
        "slot": ledger.slot,
        "feedbacks": ledger.feedbacks,
        "outstanding": ledger.outstanding,
        "expired": ledger.expired,
        "removed": ledger.removed,
        "voided": ledger.voided,
        "total_delay": ledger.total_delay,
        _mean_name(run): _mean_of(run),
        "last_act_at": _time_text(ledger.last_act_at),
        "last_event_at": _time_text(ledger.last_event_at),
        "hints": _hints(run, mostly_surplus=mostly_surplus),
        **_rare(run),
    }


def _mean_name(run: Run) -> str:
    return f"mean_{run.params.losses.word}"


def _mean_of(run: Run) -> float | None:
    ledger = run.ledger
    if not ledger.losses:
        return None
    by_arm = isinstance(run, ArmRun)
    return shown_mean(run.params.losses.posted(ledger.mean_loss) if by_arm else ledger.mean_loss)


def _time_text(unix_seconds: float) -> str | None:
    return time_text(unix_seconds) if unix_seconds else None


def _hints(run: Run, *, mostly_surplus: bool) -> list[dict[str, str]]:
    return [hint._asdict() for hint in hints(run, mostly_surplus=mostly_surplus)]


def _rare(run: Run) -> dict[str, Any]:
    """Return the fields that few sessions have."""
    from_slot = run.ledger.counted_from_slot
    return {
        **({"segments": run.shared.kept} if isinstance(run, SegmentRun) else {}),
        **({"counted_from_slot": from_slot} if from_slot else {}),
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


def encode_about(chosen: Mapping[str, Any], run: Run, schema: int) -> bytes:
    """Return the bytes of what seldom changes, without what has many numbers or labels, one for each arm.

    Parameters
    ----------
    chosen : the fields that clients choose beside the learner
    run : of the session, with its present arms
    schema : of the session's state
    """
    shown = shortened(about(chosen, run))
    if schema >= PACKED_COUNTS:
        rates = run.learner.rates(run.state)
        shown[_NAMES] = [_mean_name(run), rates["rates"], *list(rates)[1:]]
    return _JSON.encode(shown).encode()


def shortened(view: dict[str, Any]) -> dict[str, Any]:
    """Remove from a view, in place, what lists don't show: many numbers or labels, one for each arm."""
    for name in ("arms", "probabilities"):
        if len(view["learner"].get(name) or ()) > MAX_LISTED_LABELS:
            del view["learner"][name]
    return view


def encode_summary(
    run: Run, version: str, schema: int, *, effective: float | None = None, mostly_surplus: bool = False
) -> bytes:
    """Return the bytes of what a commit changes, as of the version that it makes.

    Parameters
    ----------
    run : of the session, after the commit
    version : that the commit makes
    schema : of the state that it writes
    effective : ``effective_arms`` of a moment ago; None over points
    mostly_surplus : whether most of the latest events answered no outstanding decision
    """
    if schema >= PACKED_COUNTS:
        found = _hints(run, mostly_surplus=mostly_surplus)
        others = {**({"hints": found} if found else {}), **_rare(run)}
        return compact_summary.encode(run, version, _mean_of(run), effective, others)
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
        seldom, names = _seldom(about)
        if summary[0] == compact_summary.FORM:
            return joined(seldom, compact_summary.decode(summary, version, names))
        often = from_json(summary)
        return joined(seldom, often) if often.pop("version") == version else None
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, struct.error):
        return None


@lru_cache(maxsize=64)
def _seldom(about: bytes) -> tuple[dict[str, Any], Any]:
    """Read what seldom changes: many sessions have the same, so nobody may change what is returned."""
    fields = from_json(about)
    return fields, fields.pop(_NAMES, None)
