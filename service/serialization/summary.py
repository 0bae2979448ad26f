"""What lists show of a session, kept beside its state so that no state is read for a list.

``about`` is what seldom changes, as JSON, and is written only when it does. ``summary`` is written by every
commit, and says of which version it is. Its layout, little-endian: the schema of the state (1 byte), so that one
may count the sessions of a schema; bytes of a count (1 byte); the counts; as float64 (NaN for None) the times of
the last act and event, the mean, ``effective_arms`` and the learner's rates; as JSON what few sessions have;
CRC-32 of all before it and the session's version. Names that depend on the session are in ``about``. The hints why
a session may not learn, and the samples of its history, follow from the same counts, and are here too.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
from pydantic_core import from_json, to_json

from ..engine.arm_run import ArmRun
from ..engine.run import Run
from ..engine.segment_run import SegmentRun
from ..learners.base import FloatArray
from .binary import CHECKSUM_BYTES, checksum, width_of
from .state import SCHEMAS

# -- Times and means as views and lists show them.

MEAN_DIGITS = 12
"""Digits of a mean: those behind are of rounding."""


def time_text(unix_seconds: float) -> str:
    """Return a time as views show it: RFC 3339 in UTC, to the millisecond.

    Microseconds are rounded and those below a millisecond cut off, as ``isoformat`` does it in four times the time.
    """
    whole = int(unix_seconds)
    micros = round((unix_seconds - whole) * 1_000_000)
    minute, second = divmod(whole + micros // 1_000_000, 60)
    return f"{_minute(minute)}{second:02}.{micros // 1000 % 1000:03}Z"


@lru_cache(maxsize=1024)
def _minute(number: int) -> str:
    """Return a minute since 1970 as a time begins with it."""
    return datetime.fromtimestamp(60 * number, UTC).strftime("%Y-%m-%dT%H:%M:")


def shown_mean(mean: float) -> float:
    """Return a mean as views and lists show it: without the last digits, which depend on the order of additions."""
    return float(f"{mean:.{MEAN_DIGITS}g}")


# -- Hints why a session may not learn, from its counts.

SILENT_SLOTS = 100
"""Slots without anything settled after which feedback seems to be missing."""
ALIKE_LOSSES = 100
"""Losses after which it says something that all were alike."""
MANY_OUTSTANDING = 1000
"""Outstanding decisions from which on it says something that they are most of all."""


class Hint(NamedTuple):
    """Why a session may not learn; ``code`` stays the same, ``message`` is for people."""

    code: str
    message: str


def hints(run: Run, *, mostly_surplus: bool = False) -> Iterator[Hint]:
    """Yield the hints for a session.

    Parameters
    ----------
    run : of the session; its counts, its default loss and whether decisions expire are looked at
    mostly_surplus : whether most of the latest events answered no outstanding decision
    """
    ledger, expires = run.ledger, run.params.expiry is not None
    is_silent = ledger.slot == ledger.outstanding
    if ledger.slot >= SILENT_SLOTS and is_silent and not expires:
        yield Hint("no_feedback", f"{ledger.slot} decisions and no feedback: nothing can be learned.")
    if expires and ledger.outstanding and not (ledger.feedbacks or ledger.voided or ledger.expired):
        yield Hint("first_window", "The first window has not ended and no event has come: no loss is known yet.")
    if ledger.losses >= ALIKE_LOSSES and ledger.equal_losses and not _has_other_default(run):
        what = "rewards" if run.params.losses.word == "reward" else "losses"
        yield Hint("equal_losses", f"All {ledger.losses} {what} were alike: no arm looks better than another.")
    many = ledger.outstanding > MANY_OUTSTANDING and 2 * ledger.outstanding > ledger.slot
    if many and not expires:
        text = f"{ledger.outstanding} of {ledger.slot} decisions wait for feedback: give the session an expiry, or"
        yield Hint("growing_outstanding", f"{text} report also that nothing happened.")
    if mostly_surplus:
        text = "Most of the last 1,000 events answered no outstanding decision: they come twice, or too late."
        yield Hint("mostly_surplus", text)


def _has_other_default(run: Run) -> bool:
    """Return whether outstanding decisions count already, as another loss than those that were reported."""
    expiry, ledger = run.params.expiry, run.ledger
    if expiry is None or not expiry.provisional or not ledger.outstanding:
        return False
    return expiry.loss != ledger.mean_loss


def effective_arms(p: FloatArray) -> float:
    """Return how many arms a distribution, shape (arms,), amounts to: exp of its entropy, to 12 digits."""
    positive = p[p > 0]
    # The digits behind are of rounding.
    return float(f"{np.exp(-np.dot(positive, np.log(positive))):.12g}")


# -- The two parts of a view, and their bytes.

MAX_LISTED_LABELS = 100
"""Sessions with more labels are listed without them; their views have them all."""
_NAMES = "summary"
"""In ``about``: names of the mean and the rates, and the mode of these, which a summary leaves out."""
_JSON = json.JSONEncoder(separators=(",", ":"))
_counts = attrgetter("slot", "feedbacks", "outstanding", "expired", "removed", "voided", "total_delay")
_NAN = float("nan")


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
    counts = (*_counts(ledger), ledger.last_act_at, ledger.last_event_at, _mean_of(run))
    return _counted(run.learner.rates(run.state), _mean_name(run), counts, _rare(run, mostly_surplus))


def _counted(rates: Any, mean: str, counts: Sequence[Any], rare: Mapping[str, Any]) -> dict[str, Any]:
    slot, feedbacks, outstanding, expired, removed, voided, total_delay, acted_at, event_at, shown_mean = counts
    return {
        "rates": rates,
        "slot": slot,
        "feedbacks": feedbacks,
        "outstanding": outstanding,
        "expired": expired,
        "removed": removed,
        "voided": voided,
        "total_delay": total_delay,
        mean: shown_mean,
        "last_act_at": time_text(acted_at) if acted_at else None,
        "last_event_at": time_text(event_at) if event_at else None,
        "hints": [],
        **rare,
    }


def _mean_name(run: Run) -> str:
    return f"mean_{run.params.losses.word}"


def _mean_of(run: Run) -> float | None:
    ledger = run.ledger
    if not ledger.losses:
        return None
    by_arm = isinstance(run, ArmRun)
    return shown_mean(run.params.losses.posted(ledger.mean_loss) if by_arm else ledger.mean_loss)


def _rare(run: Run, mostly_surplus: bool) -> dict[str, Any]:
    """Return the fields that few sessions have."""
    found = [hint._asdict() for hint in hints(run, mostly_surplus=mostly_surplus)]
    segments = {"segments": run.shared.kept} if isinstance(run, SegmentRun) else {}
    return {**({"hints": found} if found else {}), **segments}


def effective_arms_of(run: Run) -> float | None:
    """Return how many arms the distribution shown to readers amounts to; None over points."""
    return effective_arms(run.probabilities) if isinstance(run, ArmRun) else None


def joined(about: Mapping[str, Any], counted: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a view, of its two parts, as the functions ``about`` and ``counted`` give them."""
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
    rates = run.learner.rates(run.state)
    names = [_mean_name(run), rates["rates"], *list(rates)[1:]]
    return _JSON.encode({**shortened(about(chosen, run)), _NAMES: names}).encode()


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
    ledger, (_, *rates) = run.ledger, run.learner.rates(run.state).values()
    counts = _counts(ledger)
    width = width_of(counts)
    numbers = (ledger.last_act_at, ledger.last_event_at, _mean_of(run), effective, *rates)
    floats = [_NAN if number is None else number for number in numbers]
    body = _layout(width, len(rates)).pack(schema, width, *counts, *floats)
    if rare := _rare(run, mostly_surplus):
        body += to_json(rare)
    return body + checksum(body + version.encode())


@lru_cache(maxsize=64)
def _layout(width: int, n_rates: int) -> struct.Struct:
    kind = {1: "b", 2: "h", 4: "i", 8: "q"}[width]
    return struct.Struct(f"<BB7{kind}{4 + n_rates}d")


def decode(about: bytes, summary: bytes, version: str) -> dict[str, Any] | None:
    """Read what lists show, in the order of views.

    Parameters
    ----------
    about : as ``encode_about`` wrote it
    summary : as ``encode_summary`` wrote it
    version : of the session now

    Returns
    -------
    The fields of a view; None where the bytes are not of this version, or not what this program writes.
    """
    body = summary[:-CHECKSUM_BYTES]
    if checksum(body + version.encode()) != summary[-CHECKSUM_BYTES:] or not body or body[0] not in SCHEMAS:
        return None
    try:
        seldom, (mean, mode, *rates) = _seldom(about)
        layout = _layout(body[1], len(rates))
        _, _, *counts = (None if x != x else x for x in layout.unpack_from(body))
        effective, values = counts[10], counts[11:]
        rare = from_json(body[layout.size :]) if len(body) > layout.size else {}
        often = _counted({"rates": mode, **dict(zip(rates, values, strict=True))}, mean, counts[:10], rare)
        return joined(seldom, often if effective is None else {**often, "effective_arms": effective})
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, struct.error):
        return None


@lru_cache(maxsize=64)
def _seldom(about: bytes) -> tuple[dict[str, Any], Any]:
    """Read what seldom changes: many sessions have the same, so nobody may change what is returned."""
    fields = from_json(about)
    return fields, fields.pop(_NAMES, None)


# -- A sample of a session's history as bytes: its counts at a moment, and what its learner would do.

MAX_ARMS = 10
"""The most probable arms that a sample names."""
MAX_COORDINATES = 10
"""The first coordinates of a point that a sample has."""
MAX_COUNT = 2**64 - 1
_FORM = 1
_HEAD = struct.Struct("<Bd8Qdd")
_ARM = struct.Struct("<If")
_COORDINATE = struct.Struct("<d")


class Sample(NamedTuple):
    """A session at a moment."""

    at: float
    """Unix seconds."""
    slot: int
    feedbacks: int
    outstanding: int
    expired: int
    removed: int
    voided: int
    total_delay: int
    losses: int
    """How many losses the mean is over."""
    mean_loss: float
    """On the learner's scale."""
    effective_arms: float
    """0 over points."""
    arms: Sequence[tuple[int, float]] = ()
    """The most probable arms by index, with their probabilities, the most probable first."""
    x: Sequence[float] = ()
    """The first coordinates of the point, over points."""

    @classmethod
    def of(cls, run: Run, at: float) -> Sample:
        """Take a sample of a run, which is not changed, at a time in Unix seconds."""
        ledger = run.ledger
        counts = (ledger.slot, ledger.feedbacks, ledger.outstanding, ledger.expired, ledger.removed)
        more = (ledger.voided, ledger.total_delay, ledger.losses)
        if not isinstance(run, ArmRun):
            x = tuple(run.learner.x(run.state)[:MAX_COORDINATES].tolist())
            return cls(at, *counts, *more, ledger.mean_loss, 0.0, (), x)
        p = np.asarray(run.probabilities)
        top = np.argsort(-p, kind="stable")[:MAX_ARMS]
        arms = [(int(arm), float(p[arm])) for arm in top if p[arm] > 0]
        return cls(at, *counts, *more, ledger.mean_loss, effective_arms(p), arms)

    def encode(self) -> bytes:
        """Return the bytes of a sample: at most 169."""
        counts = [min(count, MAX_COUNT) for count in self[1:9]]
        head = _HEAD.pack(_FORM, self.at, *counts, self.mean_loss, self.effective_arms)
        arms, x = self.arms[:MAX_ARMS], self.x[:MAX_COORDINATES]
        return head + b"".join([_ARM.pack(*arm) for arm in arms] + [_COORDINATE.pack(each) for each in x])

    @classmethod
    def decode(cls, data: bytes) -> Sample | None:
        """Read a sample; None for bytes that this program does not write."""
        if len(data) < _HEAD.size or data[0] != _FORM or (len(data) - _HEAD.size) % _ARM.size:
            return None
        sample, rest = cls(*_HEAD.unpack_from(data)[1:]), data[_HEAD.size :]
        if sample.effective_arms:
            return sample._replace(arms=[(arm, float(f"{p:.6g}")) for arm, p in _ARM.iter_unpack(rest)])
        return sample._replace(x=[x for (x,) in _COORDINATE.iter_unpack(rest)])
