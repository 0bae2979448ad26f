"""The rule of multiscale_tsallis written out number by number, in lists, with lambda found by bisection.

It is slow and takes one run; the learner is compared with it.
"""

import math
from collections.abc import Callable
from typing import Any

MEANS = ((math.inf, 2.0), (math.inf, 1.0), (2000.0, 2.0))
"""(memory, sharpness) of experts 1 to 3."""
TSALLIS = ((math.inf, 0.0, 0.5), (4000.0, 0.0, 1.0), (1000.0, 0.0, 1.0), (math.inf, 1.0, 1.0))
"""(memory, delay weight, share) of experts 4 to 7."""
H = (math.inf, 2000.0)
C = (0.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0)
META, PRIOR, FLOOR, FALL, RISE, FALL_CORRECTION = 0.35, 2.0, 0.25, 0.25, 0.5, 1.0


def shares(sums: list[float], a: float) -> tuple[float, list[float]]:
    """lambda <= -a, and x with sum 1."""
    low, high = min(sums) - a * (math.sqrt(len(sums)) + 1), min(sums) - a
    for _ in range(120):
        lam = (low + high) / 2
        low, high = (lam, high) if sum((a / (s - lam)) ** 2 for s in sums) < 1 else (low, lam)
    return lam, [(a / (s - lam)) ** 2 for s in sums]


def scaled(x: list[float]) -> list[float]:
    return [each / sum(x) for each in x]


def clip(move: float, fall: float, unit: float) -> float:
    return min(max(move, -fall * unit), RISE * unit)


class PlainMultiscale:
    """State and operations as in the rule, under the rule's letters."""

    costs, meta = C, META

    def __init__(self, n_arms: int, default: float | None, initial: list[tuple[int, int, float]] | None = None):
        self.k, self.default = n_arms, default
        self.s = [[0.0] * n_arms for _ in TSALLIS]
        self.p, self.q = ([[1 / n_arms] * n_arms for _ in range(size)] for size in (4, 7))
        self.pool, self.shown = [1 / n_arms] * n_arms, [1 / n_arms] * n_arms
        self.counts, self.totals = ([[0.0] * n_arms for _ in H] for _ in range(2))
        self.a, self.a0 = [0.0] * 4, 0.0
        self.w_sums, self.w = [0.0] * 7, [1 / 7] * 7
        self.t = self.n = self.n0 = self.dropped = self.delays = 0
        self.mean = self.v = self.m = self.size = self.b = 0.0
        if initial:
            self._warm(initial)

    def _warm(self, initial: list[tuple[int, int, float]]) -> None:
        n = self.t = self.n = sum(acts for _, acts, _ in initial)
        b = self.mean = sum(acts * mean for _, acts, mean in initial) / n
        self.v, self.m = n * b * (1 - b), max(b, 1 - b) ** 2
        self.size = 2 * self.v
        for k, acts, mean in initial:
            for j, (h, _, _) in enumerate(TSALLIS):
                self.s[j][k] = min(n, h) * ((mean - b) * acts / (acts + n / self.k))
            for i, h in enumerate(H):
                self.counts[i][k] = acts * min(1, h / n)
                self.totals[i][k] = self.counts[i][k] * mean
        self.s = [[s - min(sums) for s in sums] for sums in self.s]

    def variance(self) -> float:
        return (self.v + self.m) / (self.n + 1) if self.n else 0.0

    def scale(self, j: int, t: int) -> float:
        if not self.variance():
            return 0.0
        h, g, c = TSALLIS[j]
        spread = min(max(t - self.dropped, self.n), h) * self.variance()
        return c * math.sqrt(spread + g * self.delays * (self.size / self.n) ** 2)

    def least(self, h: float) -> float:
        """f in slot t."""
        return min(FLOOR / math.sqrt(min(max(self.t, 1), h)), 0.25) / self.k

    def open(self, outstanding: int, eligible: list[int] | None, floor: float = 0.0) -> list[float]:
        self.t += 1
        self.delays += outstanding
        self.n0, self.b = self.n, self.mean
        for i, h in enumerate(H):
            self.counts[i] = [(1 - 1 / h) * each for each in self.counts[i]]
            self.totals[i] = [(1 - 1 / h) * each for each in self.totals[i]]
        for j in range(4):
            self._solve(j)
        self._mix()
        among, every = list(range(self.k)) if eligible is None else eligible, list(range(self.k))
        over, self.shown = self.experts(among), self.mixed(self.experts(every))
        drawn = self.floored(self.mixed(over), among, floor)
        o = min(outstanding, 1_000 if self.default is None else 10_000)
        self.q = [
            [(q * o + r) / (o + 1) for q, r in zip(*each, strict=True)] for each in zip(self.q, over, strict=True)
        ]
        self.pool = [(q * o + p) / (o + 1) for q, p in zip(self.pool, drawn, strict=True)]
        return drawn

    def _solve(self, j: int) -> None:
        sums = [s * (1 - 1 / TSALLIS[j][0]) for s in self.s[j]]
        sums = [s - min(sums) for s in sums]
        self.a[j] = a = self.scale(j, self.t)
        if a > 0:
            f, (lam, x) = self.least(TSALLIS[j][0]), shares(sums, a)
            sums = [lam + a / math.sqrt(f) if y < f else s for s, y in zip(sums, x, strict=True)]
            self.p[j] = scaled([max(y, f) for y in x])
        self.s[j] = sums

    def _mix(self) -> None:
        self.w_sums = [w - min(self.w_sums) for w in self.w_sums]
        self.a0 = self.meta * math.sqrt(max(self.t - self.dropped, self.n) * self.variance())
        if self.a0 > 0:
            asked = [w + self.a0 * c for w, c in zip(self.w_sums, self.costs, strict=True)]
            least, floor = min(asked), min(FLOOR / math.sqrt(self.t), 0.25) / len(asked)
            asked = [each - least for each in asked]
            lam, x = shares(asked, self.a0)
            raised = lam + self.a0 / math.sqrt(floor)
            asked = [raised if y < floor else each for each, y in zip(asked, x, strict=True)]
            self.w = scaled([max(y, floor) for y in x])
            self.w_sums = [each + least - self.a0 * c for each, c in zip(asked, self.costs, strict=True)]

    def near_best(self, i: int, c: float, among: list[int]) -> list[float]:
        """x of an expert of means."""
        v, of_all = self.variance(), sum(self.counts[i])
        s0, mu = PRIOR * self.m / v, sum(self.totals[i]) / of_all if of_all else 0.0
        m = [(self.totals[i][k] + s0 * mu) / (self.counts[i][k] + s0) for k in among]
        e = [v / (self.counts[i][k] + s0) for k in among]
        best = m.index(min(m))
        z = [c * (each - m[best]) / math.sqrt(error + e[best]) for each, error in zip(m, e, strict=True)]
        return [math.exp(-0.717 * each - 0.416 * each**2) for each in z]

    def experts(self, among: list[int]) -> list[list[float]]:
        """r of all seven over some arms, from the state as it stands."""
        if not self.variance():
            return [self.spread([1.0] * len(among), among)] * 7
        over = []
        for h, c in MEANS:
            f = self.least(h)
            over.append([max(y, f) for y in scaled(self.near_best(H.index(h), c, among))])
        for j, (h, _, _) in enumerate(TSALLIS):
            if len(among) == self.k:
                over.append(self.p[j])
                continue
            y, least = [1.0] * len(among), min(self.s[j][k] for k in among)
            if self.a[j] > 0:
                y = shares([self.s[j][k] - least for k in among], self.a[j])[1]
                y = [max(each, self.least(h)) for each in y]
            over.append(y)
        return [self.spread(y, among) for y in over]

    def spread(self, y: list[float], among: list[int]) -> list[float]:
        over = [0.0] * self.k
        for k, share in zip(among, scaled(y), strict=True):
            over[k] = share
        return over

    def mixed(self, over: list[list[float]]) -> list[float]:
        return [sum(w * r[k] for w, r in zip(self.w, over, strict=True)) for k in range(self.k)]

    def floored(self, p: list[float], among: list[int], floor: float) -> list[float]:
        return [(1 - floor) * each + (floor / len(among) if k in among else 0) for k, each in enumerate(p)]

    def view(self, among: list[int], floor: float) -> list[float]:
        shown = self.shown if len(among) == self.k else self.mixed(self.experts(among))
        return self.floored(shown, among, floor)

    def best_chance(self) -> list[float] | None:
        return scaled(self.near_best(0, 1.0, list(range(self.k)))) if self.variance() else None

    def _step(self, k: int, d: float, fall: float, count: int) -> None:
        if not self.pool[k] > 0:
            return
        for j in range(4):
            self.s[j][k] += count * clip(d / self.pool[k], fall, self.a[j] / math.sqrt(self.p[j][k]))
        for j in range(7):
            self.w_sums[j] += count * clip(d * self.q[j][k] / self.pool[k], fall, self.a0 / math.sqrt(self.w[j]))

    def event(self, k: int, loss: float, count: int = 1) -> None:
        d = loss - self.b
        self._step(k, d, FALL, count)
        for i in range(2):
            self.counts[i][k] += count
            self.totals[i][k] += count * loss
        if self.n0 > 0:
            self.v, self.size, self.m = self.v + count * d * d, self.size + count * abs(d), max(self.m, d * d)
        self.n += count
        self.mean += count * (loss - self.mean) / self.n

    def charge(self, k: int) -> None:
        self.event(k, self.default or 0.0)

    def correct(self, k: int, loss: float) -> None:
        self.update(k, loss, self.default or 0.0)

    def update(self, k: int, loss: float, before: float) -> None:
        self._step(k, loss - before, FALL_CORRECTION, 1)
        for i in range(2):
            self.totals[i][k] += min(1, self.counts[i][k]) * (loss - before)
        d, e = loss - self.b, before - self.b
        if self.n0 > 0:
            self.v, self.size = max(self.v + d * d - e * e, 0), max(self.size + abs(d) - abs(e), 0)
            self.m = max(self.m, d * d)
        if self.n:
            self.mean += (loss - before) / self.n

    def void(self, k: int) -> None:
        self.dropped += 1
        if self.default is None:
            return
        e = self.default - self.b
        self._step(k, e, FALL, -1)
        for i in range(2):
            c = min(1, self.counts[i][k])
            self.counts[i][k] -= c
            self.totals[i][k] = self.totals[i][k] - c * self.default if self.counts[i][k] else 0.0
        if self.n0 > 0:
            self.v, self.size = max(self.v - e * e, 0), max(self.size - abs(e), 0)
        self.n -= 1
        self.mean = self.mean - (self.default - self.mean) / self.n if self.n else 0.0

    def drop(self, count: int) -> None:
        """Decisions expired without a loss."""
        self.dropped += count

    def remove_arms(self, positions: list[int]) -> None:
        def change(p: list[float]) -> list[float]:
            kept = [each for k, each in enumerate(p) if k not in positions]
            return scaled(kept) if sum(kept) > 0 else [1 / len(kept)] * len(kept)

        self._change(change)
        for rows in (self.counts, self.totals):
            rows[:] = [[each for k, each in enumerate(row) if k not in positions] for row in rows]

    def add_arms(self, count: int) -> None:
        def change(p: list[float]) -> list[float]:
            n = len(p) + count
            return [each * len(p) / n for each in p] + [1 / n] * count

        self._change(change)
        for rows in (self.counts, self.totals):
            rows[:] = [row + [0.0] * count for row in rows]

    def _change(self, change: Callable[[list[float]], Any]) -> None:
        for j, (h, _, _) in enumerate(TSALLIS):
            keep, a = 1 - 1 / h, self.scale(j, self.t + 1)
            sums = [keep * s for s in self.s[j]]
            x = change(shares([s - min(sums) for s in sums], a)[1] if a > 0 else self.p[j])
            depths = [a / math.sqrt(y) for y in x]
            self.s[j] = [(depth - min(depths)) / keep for depth in depths]
            self.p[j] = change(self.p[j])
        self.q = [change(q) for q in self.q]
        self.pool, self.shown = change(self.pool), change(self.shown)
        self.k = len(self.pool)
