"""What views and lists show of a session: what seldom changes, and what any commit may change.

Lists are made of two texts beside a session's version, so that no state is read for them. ``about`` is what seldom
changes, as JSON, and is written only when it does. The rest follows from the head of the state, ``state.Shown``:
the counts, and of them the hints why a session may not learn; ``about`` has the names that depend on the session.
The samples of a session's history follow from the same counts, and are here too.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from operator import attrgetter
from typing import Any, Literal, NamedTuple

import numpy as np
from pydantic_core import from_json

from ..engine.arm_run import ArmRun
from ..engine.control import GROUPS, group_sums, together, verdict
from ..engine.ledger import LEAST_MISSED, Expiry, Ledger, LossRange
from ..engine.run import Run
from ..engine.segment_run import SegmentRun
from ..learners.base import FloatArray
from .binary import CodecError
from .state import Shown, read_shown

# -- Times and means as views and lists show them.

MEAN_DIGITS = 12
"""Digits of a mean: those behind are of rounding."""


def time_text(unix_seconds: float) -> str:
    """Return a time as views show it: RFC 3339 in UTC, to the millisecond.

    As ``datetime`` does, which takes three times as long, it cuts off what is left of the nearest microsecond.
    """
    fraction, whole = math.modf(unix_seconds)
    seconds, micro = divmod(round(fraction * 1e6), 1_000_000)
    return f"{_second_text(int(whole) + seconds)}.{micro // 1000:03d}Z"


_second_text = lru_cache(maxsize=1024)(lambda seconds: datetime.fromtimestamp(seconds, UTC).isoformat()[:-6])


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
MANY_SETTLED, MOST_ANSWERED = 200, 0.8
"""Settled decisions after which it says something that more than this share was answered by events."""
EVENTS_PER_ARM = 10
"""Events that tell something, for each arm, before it is clear which is the best."""
SAID_ACTS, CLIPPED = 500, 0.1
"""Acts counted last from which on it says something what they said of features; and the share of a feature's values
outside of its range from which on that seems to be a mistake."""
UNUSED_SLOTS, UNUSED_WEIGHT = 10_000, 0.05
"""Slots from which on features seem to be useless whose experts have less than this weight."""
RARE, RARELY_ANSWERED = 20, 0.2
"""Events worse than the default after which it says something that all were, and that few decisions had one."""


_OfEvents = Literal["no_feedback", "first_window", "equal_losses", "mostly_surplus", "late_events"]
_OfGuards = Literal["halted", "silence"]
_OfMultiscale = Literal["answered_too_often", "few_events", "rewards_rare_and_bad"]
_OfFeatures = Literal["features_missing", "features_clipped", "features_unused"]
HintCode = Literal[_OfEvents, _OfGuards, "growing_outstanding", _OfMultiscale, _OfFeatures]


class Hint(NamedTuple):
    """Why a session may not learn; ``code`` stays the same, ``message`` is for people."""

    code: HintCode
    message: str


def hints(
    learner: Mapping[str, Any], ledger: Ledger, losses: LossRange, expiry: Expiry | None, mostly_surplus: bool
) -> Iterator[Hint]:
    """Yield the hints for a session.

    Parameters
    ----------
    learner : as views show it
    ledger : counts of the session
    losses, expiry : of the session
    mostly_surplus : whether most of the latest events answered no outstanding decision
    """
    if ledger.slot == ledger.outstanding >= SILENT_SLOTS and expiry is None:
        yield Hint("no_feedback", f"{ledger.slot} decisions and no feedback: nothing can be learned.")
    if expiry is not None and ledger.outstanding and not (ledger.feedbacks or ledger.voided or ledger.expired):
        yield Hint("first_window", "The first window has not ended and no event has come: no loss is known yet.")
    # Outstanding decisions may count already, as another loss than those that were reported.
    is_charged = expiry is not None and expiry.provisional and ledger.outstanding > 0
    has_other_default = is_charged and expiry is not None and expiry.loss != ledger.mean_loss
    if ledger.losses >= ALIKE_LOSSES and ledger.equal_losses and not has_other_default:
        what = "rewards" if losses.word == "reward" else "losses"
        never = "" if ledger.feedbacks else " No event has come yet."
        yield Hint(
            "equal_losses", f"All {ledger.losses} {what} were alike: no arm looks better than another.{never}"
        )
    many = ledger.outstanding > MANY_OUTSTANDING and 2 * ledger.outstanding > ledger.slot
    if many and expiry is None:
        text = f"{ledger.outstanding} of {ledger.slot} decisions wait for feedback: give the session an expiry, or"
        yield Hint("growing_outstanding", f"{text} report also that nothing happened.")
    if mostly_surplus:
        text = "Most of the last 1,000 events answered no outstanding decision: they come twice, or too late."
        yield Hint("mostly_surplus", text)
    if ledger.late_events and expiry is not None:
        text = "More than 5 % of the last 1,000 events came after their decisions had expired, and taught nothing:"
        yield Hint("late_events", f"{text} report them sooner, or change expiry.after_seconds to a longer window.")
    if ledger.halted_at:
        text = "The learner was worse than the control group by more than the guard tolerates: all are"
        yield Hint("halted", f'{text} control acts. PATCH {{"halted": false}} lets the learner act again.')
    if ledger.silent:
        text = f"The last event came at {time_text(ledger.last_event_at)}, and {LEAST_MISSED} more were due by the"
        text += " rate so far. Nothing is learned of missing ones until one comes: look at what posts them."
        yield Hint("silence", text)
    if learner["kind"] == "multiscale_tsallis":
        yield from _of_multiscale(ledger, expiry, learner["n_arms"])


def _of_features(ledger: Ledger, weight: float) -> Iterator[Hint]:
    """Yield the hints of a session with features, on which ``weight`` of the last slot rested."""
    acts, missing, *said = ledger.said or (0, 0)
    n, is_known = len(said) // 2, acts >= SAID_ACTS
    if is_known and 2 * missing > acts:
        yield Hint("features_missing", "More than half of the last acts left a feature out.")
    if is_known and any(out > CLIPPED * (acts - unsaid) for unsaid, out in zip(said[:n], said[n:], strict=True)):
        yield Hint(
            "features_clipped", "More than 10 % of a feature's values were outside of its range in the last acts."
        )
    if ledger.slot >= UNUSED_SLOTS and weight < UNUSED_WEIGHT:
        yield Hint("features_unused", f"Acts hardly rest on features ({weight:.1%}): they don't tell the best arm.")


def _of_multiscale(ledger: Ledger, expiry: Expiry | None, n_arms: int) -> Iterator[Hint]:
    """Yield the hints that only the learner which we recommend has; ``n_arms`` are live."""
    settled, told = ledger.feedbacks + ledger.expired, ledger.telling
    # Before the first window has ended only answers settle decisions: so those that are outstanding count, too.
    often = settled >= MANY_SETTLED and ledger.feedbacks > MOST_ANSWERED * (settled + ledger.outstanding)
    if often and expiry is not None and expiry.provisional:
        yield Hint("answered_too_often", "Most decisions are answered: a provisional default only misleads.")
    if ledger.slot >= SILENT_SLOTS and told < (needed := EVENTS_PER_ARM * n_arms):
        then = f": clear at about slot {float(f'{ledger.slot * needed / told:.2g}'):.0f}" if told else ""
        yield Hint("few_events", f"{told} events for {n_arms} arms are too few to know the best{then}.")
    is_worse = ledger.above >= RARE and not ledger.below and ledger.feedbacks < RARELY_ANSWERED * settled
    if is_worse and expiry is not None and expiry.loss is not None:
        text = "Everything you report is worse than silence. Right for complaints; if these are clicks, post them"
        yield Hint("rewards_rare_and_bad", f"{text} as the best reward.")


def effective_arms(p: FloatArray) -> float:
    """Return how many arms a distribution, shape (arms,), amounts to: exp of its entropy, to 12 digits."""
    positive = p[p > 0]
    # The digits behind are of rounding.
    return float(f"{np.exp(-np.dot(positive, np.log(positive))):.12g}")


# -- Two groups, and what is known of their difference.


Group = tuple[Ledger, Expiry | None]
"""Counts of a group, and the expiry of its session."""
Past = tuple[Ledger, Ledger] | tuple[None, None]
"""Of both groups the counts of decisions that a verdict leaves out."""


def groups_of(run: Run) -> dict[str, Any]:
    """Return what ``compared`` does of a session, and since when it is halted; nothing without a control group."""
    if (control := run.control) is None:
        return {}
    expiry, halted_at = run.params.expiry, control.ledger.halted_at
    past: Past = (None, None) if control.restart is None else control.restart.past
    found = compared(run.params.losses, (run.ledger, expiry), (control.ledger, expiry), past)
    return found | ({"halted_at": time_text(halted_at)} if halted_at else {})


def compared(losses: LossRange, learner: Group, control: Group, past: Past = (None, None)) -> dict[str, Any]:
    """Return the counts of two groups whose losses have one range, and the verdict if there is one yet."""
    groups, both = {}, list(zip((learner, control), past, strict=True))
    sums = [group_sums(ledger, losses, expiry, before) for (ledger, expiry), before in both]
    for name, (ledger, _), (acts, total, _) in zip(GROUPS, (learner, control), sums, strict=True):
        mean = losses.at_share(1 - total / acts) if acts else None
        counts = {
            "acts": ledger.slot - ledger.voided,
            "outstanding": ledger.outstanding,
            "events": ledger.feedbacks,
        }
        groups[name] = {**counts, f"mean_{losses.word}": None if mean is None else shown_mean(mean)}
    found = verdict(sums[0], sums[1], losses) or {}
    shown = {key: shown_mean(each) if isinstance(each, float) else each for key, each in found.items()}
    return {"groups": groups, **({"verdict": shown} if shown else {})}


# -- The two parts of a view.

MAX_LISTED_LABELS = 100
"""Sessions with more labels are listed without them; their views have them all."""
_NAMES = "summary"
"""In ``about``: names of the mean and the rates, and the mode of these, which the head of a state leaves out."""
COUNTS = ("slot", "feedbacks", "outstanding", "expired", "removed", "voided", "total_delay")
_counts = attrgetter(*COUNTS)
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
        if not isinstance(run.arms.live, range):
            learner["arm_indexes"] = run.arms.live
    return {"learner": learner, **chosen}


def viewed(chosen: Mapping[str, Any], run: Run, *, mostly_surplus: bool = False) -> dict[str, Any]:
    """Return the fields of a session's view, but for its distribution or point, and what the store says of it.

    Parameters
    ----------
    chosen : the fields that clients choose beside the learner
    run : of the session
    mostly_surplus : whether most of the latest events answered no outstanding decision
    """
    shown = Shown(run.counts, run.shared.kept if isinstance(run, SegmentRun) else None, mostly_surplus)
    return _joined(about(chosen, run), run.learner.rates(run.state), shown, run.params.losses, run.params.expiry)


def _joined(about: Any, rates: Any, shown: Shown, losses: LossRange, expiry: Expiry | None) -> dict[str, Any]:
    ledger, by_arm, weighed = shown.ledger, "n_arms" in about["learner"], {}
    if shown.control is not None:
        ledger = together(ledger, shown.control)
    found = [*hints(about["learner"], ledger, losses, expiry, shown.mostly_surplus)]
    if "features" in about:
        rates = dict(rates)
        weighed = {"feature_weight": rates.pop("feature_weight")}
        found += _of_features(shown.ledger, *weighed.values())
    mean = losses.posted(ledger.mean_loss) if by_arm else ledger.mean_loss
    counted = zip(about.get("goals", {}).items(), ledger.goals, strict=True)
    goals = {name: {"value": value, "events": count} for (name, value), count in counted}
    return {
        **about,
        **weighed,
        "learner": {**about["learner"], **rates},
        **dict(zip(COUNTS, _counts(ledger), strict=True)),
        f"mean_{losses.word}": shown_mean(mean) if ledger.losses else None,
        "last_act_at": time_text(ledger.last_act_at) if ledger.last_act_at else None,
        "last_event_at": time_text(ledger.last_event_at) if ledger.last_event_at else None,
        "hints": [hint._asdict() for hint in found],
        **({} if shown.kept is None else {"segments": shown.kept}),
        **({"goals": goals} if goals else {}),
        **({} if shown.effective is None else {"effective_arms": shown.effective}),
    }


def effective_arms_of(run: Run) -> float | None:
    """Return how many arms the distribution shown to readers amounts to; None over points."""
    return effective_arms(run.probabilities) if isinstance(run, ArmRun) else None


def encode_about(chosen: Mapping[str, Any], run: Run) -> bytes:
    """Return the bytes of what seldom changes, without what has many numbers or labels, one for each arm.

    Parameters
    ----------
    chosen : the fields that clients choose beside the learner
    run : of the session, with its present arms
    """
    rates = run.learner.rates(run.state)
    names = [f"mean_{run.params.losses.word}", rates["rates"], *list(rates)[1:]]
    return _JSON.encode({**shortened(about(chosen, run)), _NAMES: names}).encode()


def shortened(view: dict[str, Any]) -> dict[str, Any]:
    """Remove from a view, in place, what lists don't show: many numbers or labels, one for each arm."""
    for part in (view["learner"], view.get("control", {})):
        for name in ("arms", "arm_indexes", "probabilities"):
            if len(part.get(name) or ()) > MAX_LISTED_LABELS:
                del part[name]
    return view


def decode(about: bytes, head: bytes) -> dict[str, Any] | None:
    """Read what lists show, in the order of views.

    Parameters
    ----------
    about : as ``encode_about`` wrote it
    head : with which the session's state begins

    Returns
    -------
    The fields of a view; None where the bytes are not what this program writes.
    """
    try:
        seldom, names, mode, losses, expiry = _seldom(about)
        shown = read_shown(head, n_goals=len(seldom.get("goals", ())), n_features=len(seldom.get("features", ())))
        return _joined(seldom, dict(zip(names, (mode, *shown.rates), strict=True)), shown, losses, expiry)
    except (CodecError, struct.error, ValueError, KeyError, TypeError, AttributeError, IndexError, OverflowError):
        return None


@lru_cache(maxsize=64)
def _seldom(about: bytes) -> tuple[dict[str, Any], Sequence[str], str, LossRange, Expiry | None]:
    """Read what seldom changes: many sessions have the same, so nobody may change what is returned."""
    fields = from_json(about)
    (mean, mode, *names), expiry = fields.pop(_NAMES), fields["expiry"]
    word: Any = mean.removeprefix("mean_")
    best, worst = fields[f"{word}_range"] if word == "loss" else reversed(fields[f"{word}_range"])
    losses = LossRange(best, worst, fields["normalize_losses"], word)
    if expiry is not None:
        default = expiry[f"default_{word}"]
        learned = None if default is None else losses.learned(default)
        expiry = Expiry(expiry["after_seconds"], learned, bool(expiry.get("provisional")))
    return fields, ("rates", *names), mode, losses, expiry


# -- A sample of a session's history as bytes: its counts at a moment, and what its learner would do.

MAX_ARMS = 10
"""The most probable arms that a sample names."""
MAX_COORDINATES = 10
"""The first coordinates of a point that a sample has."""
MAX_COUNT = 2**64 - 1
_FORM = 1
_HEAD = struct.Struct("<Bd8Qddf")
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
    feature_weight: float = -1.0
    """-1 without features."""
    arms: Sequence[tuple[int, float]] = ()
    """The most probable arms by index, with their probabilities, the most probable first."""
    x: Sequence[float] = ()
    """The first coordinates of the point, over points."""

    @classmethod
    def of(cls, run: Run, at: float) -> Sample:
        """Take a sample of a run, which is not changed, at a time in Unix seconds."""
        counts = (*_counts(ledger := run.counts), ledger.losses, ledger.mean_loss)
        if not isinstance(run, ArmRun):
            return cls._make((at, *counts, 0.0, -1.0, (), run.learner.x(run.state)[:MAX_COORDINATES].tolist()))
        p = np.asarray(run.probabilities)
        top = [(run.arms.live[k], float(p[k])) for k in np.argsort(-p, kind="stable")[:MAX_ARMS] if p[k] > 0]
        weight = run.learner.rates(run.state).get("feature_weight", -1.0)
        return cls._make((at, *counts, effective_arms(p), weight, top, ()))

    def encode(self) -> bytes:
        """Return the bytes of a sample: at most 173."""
        counts = [min(count, MAX_COUNT) for count in self[1:9]]
        head = _HEAD.pack(_FORM, self.at, *counts, *self[9:12])
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
