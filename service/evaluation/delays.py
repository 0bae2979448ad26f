"""Policies' values from events that name no slot: each event is spread over the acts that it can have come from.

How old an act is when its event comes is learned from the log itself, by expectation maximisation over a histogram
of delays (Dempster, Laird and Rubin 1977); an act counts as far as the delays that have passed since. To hand an
event to one act, say the oldest open one, is right for counts and wrong here: the probability of that act is then
another one than that of the act clicked.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..row_files import LogFileError

Floats = NDArray[np.float64]
Wholes = NDArray[np.int64]
Columns = tuple[Floats, Wholes, Floats]

BINS, ROUNDS = 16, 60
"""Of the histogram of delays, and of expectation maximisation."""
MIN_EFFECTIVE = 50.0
"""Effective sample size below which an interval would promise more than it holds."""
PER_SECOND = 10_000
"""Times are compared to a tenth of a millisecond."""
MOST_KEYS = 2**62
TINY = 1e-300


class Interval(NamedTuple):
    """An estimate with its interval."""

    value: float
    low: float
    high: float


@dataclass(slots=True, frozen=True)
class Spread:
    """The events of a log that name no slot, each in shares over the acts that no event names, by their age."""

    values: Floats
    """Of the events that can have come from one of the acts, as they were posted; shape (events,)."""
    exposures: Floats
    """Of each act the share of delays at which its event would be in the log, shape (acts,)."""
    default: float | None
    """Of an act without an event; None: only acts with events count."""
    density: Floats
    """For each event and bin of ages the chance that it is of one act of that age, shape (events, 16)."""
    order: Wholes
    """Acts that no event names, by source and time; those behind them by visitor and time."""
    found: Wholes
    """Places in ``order`` at the edges of each event's bins, shape (events, 17)."""

    @classmethod
    def of(
        cls, acts: Columns, events: Columns, default: float | None, window: float, span: tuple[float, float]
    ) -> Spread:
        """Fit the delays of a log.

        Parameters
        ----------
        acts : their times, in Unix seconds, their sources, and when an event came that names them, NaN if none did;
            shape (acts,). A source is what an act and its event have in common: group, segment and arm, from 0; in
            a second row the visitor's columns too, with a number above these, or the same again
        events : that name no slot: their times, sources, -1 if no act has it, and values; shape (events,). Sources
            in the first row count if no act has that in the second
        default : of an act without an event; None if only acts with events count
        window : longest delay, in seconds
        span : from when on the log has all events of its acts, -inf if it begins with the session, and its end

        Raises
        ------
        LogFileError
            if times and sources are too many to be told apart.
        """
        (at, sources, answered), (came, of, posted), (begin, end) = acts, events, span
        (sources, visitors), (of, seen) = sources, of
        edges = min(window, max(0.1, end - at.min(initial=end))) * (np.arange(BINS + 1) / BINS) ** 2
        widths, unnamed, size = np.diff(edges), np.flatnonzero(np.isnan(answered)), int(sources.max(initial=0)) + 1
        behind = np.clip((end - at)[:, None] - edges[:-1], 0, widths)
        behind = (behind - np.clip((begin - at)[:, None] - edges[:-1], 0, widths)) / widths

        # One number for source and time sorts both. An act and an event of the same moment belong together.
        first = float(at.min(initial=end))
        length = int((end - first + window) * PER_SECOND) + 2
        if (int(visitors.max(initial=0)) + 1) * length > MOST_KEYS:
            raise LogFileError("the log spans too many years for its number of arms and segments")
        moments = np.clip((at - first) * PER_SECOND, 0, length - 1).round().astype(int)
        order = np.concatenate([unnamed, beside := unnamed[(visitors != sources)[unnamed]]])
        keys = np.concatenate([sources[unnamed], visitors[beside]]) * length + moments[order]
        order, keys = order[by := np.argsort(keys, kind="stable")], keys[by]
        ages = np.maximum(((came - first)[:, None] - edges) * PER_SECOND, -1).round().astype(int)
        found, is_lost = np.empty((of.size, BINS + 1), np.int64), np.full(of.size, fill_value=True)
        for each in (seen, of):
            sought = each[is_lost, None] * length + ages[is_lost]
            found[is_lost] = np.searchsorted(keys, sought)
            found[is_lost, 0] = np.searchsorted(keys, sought[:, 0], side="right")
            is_lost = found[:, 0] <= found[:, -1]
        is_kept = (came >= begin) & (found[:, 0] > found[:, -1])
        found, is_known = found[is_kept], answered >= begin
        candidates = found[:, :-1] - found[:, 1:]
        exposed = np.stack([np.bincount(sources, each, size) for each in behind.T], 1)
        # Events that name no slot may be later, or earlier, than those that do.
        known = np.histogram((answered - at)[is_known], edges)[0]
        counts = np.stack([np.bincount(each, minlength=size) for each in (of[is_kept], sources[is_known])])
        phi = np.full((2, BINS), 1 / BINS)
        for _ in range(ROUNDS):
            rates = counts / np.maximum(phi @ exposed.T, 1e-9)
            shares = candidates * (phi[0] / widths)
            shares /= np.maximum(shares.sum(axis=1, keepdims=True), TINY)
            phi = np.stack([shares.sum(axis=0), known]) / np.maximum(rates @ exposed, 1e-9)
            phi /= np.maximum(phi.sum(axis=1, keepdims=True), TINY)
        both = (rates @ np.bincount(sources, minlength=size)) @ phi
        density = phi[0] / widths / np.maximum(candidates @ (phi[0] / widths), TINY)[:, None]
        exposures = behind @ (both / max(both.sum(), TINY))
        return cls(posted[is_kept], exposures, default, density, order, found)

    def weights_of(self, weights: Floats) -> Floats:
        """Return the mean weight of the acts that each event can have come from.

        Parameters
        ----------
        weights : of all acts, shape (acts,)
        """
        summed = np.append(0.0, np.cumsum(weights[self.order]))[self.found]
        means: Floats = (self.density * (summed[:, :-1] - summed[:, 1:])).sum(axis=1)
        return means

    def shared_out(self, terms: Floats) -> Floats:
        """Return what each act gets of the events' ``terms``, in the shares in which they can have come from it."""
        parts, steps = self.density * terms[:, None], np.zeros(self.order.size + 1)
        np.add.at(steps, self.found[:, 1:], parts)
        np.subtract.at(steps, self.found[:, :-1], parts)
        return np.asarray(np.bincount(self.order, np.cumsum(steps[:-1]), self.exposures.size), np.float64)

    def value(self, weights: Floats, values: Floats, z: float) -> tuple[float, Interval | None]:
        """Return the effective sample size of a policy, and its value with an interval; None if that is too small.

        The interval has the wider ends of a normal one and of Wilson's (1927).

        Parameters
        ----------
        weights : of all acts: the policy's probability over the log's
        values : of all acts, NaN where no event names them
        z : quantile of the normal distribution for the interval
        """
        named, base = ~np.isnan(values), self.default
        per_event = np.append(self.weights_of(weights), weights[named])
        posted = np.append(self.values, values[named])
        if base is None:  # There is no absence to learn of: an event is a decision.
            weights, exposures, seen = per_event, np.ones(per_event.size), posted
        else:
            exposures, seen = self.exposures, np.append(posted, base)
        total, effective = float(weights @ exposures), weights.sum() ** 2 / max(float(weights @ weights), TINY)
        if effective < MIN_EFFECTIVE or not total > 0:
            return effective, None
        mean = (base or 0.0) + float(per_event @ (posted - (base or 0.0))) / total
        centred = per_event * (posted - (mean if base is None else base))
        size = total**2 / max(float(weights**2 @ exposures), TINY)
        return effective, widest(mean, math.sqrt(float(centred @ centred)) / total, seen, size, z)


def widest(mean: float, error: float, seen: Floats, size: float, z: float) -> Interval:
    """Return an interval with the wider ends of a normal one and of Wilson's (1927).

    Parameters
    ----------
    mean, error : with its standard error
    seen : values; Wilson's is of the mean's share of the way from the least to the largest, if these differ
    size : effective sample size
    z : quantile of the normal distribution
    """
    low, width, ends = float(seen.min()), float(np.ptp(seen)), [mean - z * error, mean + z * error]
    if width:
        centre, half = wilson(min(1.0, max(0.0, (mean - low) / width)), size, z)
        ends += [low + (centre - half) * width, low + (centre + half) * width]
    return Interval(mean, min(ends), max(ends))


def wilson(share: float, count: float, z: float) -> tuple[float, float]:
    """Return centre and half width of Wilson's interval (1927) of a share among ``count`` draws."""
    centre = (share + z * z / (2 * count)) / (1 + z * z / count)
    return centre, z / (1 + z * z / count) * math.sqrt(share * (1 - share) / count + z * z / (4 * count * count))
