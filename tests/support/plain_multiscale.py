"""The rule of multiscale_tsallis written out number by number, in lists, with lambda found by bisection.

It is slow and takes one run; the learner is compared with it.
"""

import math
from typing import Any

H = (math.inf, math.inf, 4000.0, 1000.0, math.inf)
G = (0.0, 1.0, 0.0, 0.0, 0.0)
C = (1.0, 1.0, 1.0, 1.0, 0.5)
J = range(5)


def shares(sums: list[float], a: float) -> tuple[float, list[float]]:
    """lambda <= -a, and x with sum 1."""
    low, high = min(sums) - a * (math.sqrt(len(sums)) + 1), min(sums) - a
    for _ in range(120):
        lam = (low + high) / 2
        low, high = (lam, high) if sum((a / (s - lam)) ** 2 for s in sums) < 1 else (low, lam)
    return lam, [(a / (s - lam)) ** 2 for s in sums]


def scaled(x: list[float]) -> list[float]:
    return [each / sum(x) for each in x]


class PlainMultiscale:
    """State and operations as in the rule, under the rule's letters."""

    def __init__(self, n_arms: int, default: float | None) -> None:
        self.k, self.default = n_arms, default
        self.s = [[0.0] * n_arms for _ in J]
        self.p, self.q = ([[1 / n_arms] * n_arms for _ in J] for _ in range(2))
        self.pool = [1 / n_arms] * n_arms
        self.a = [0.0] * 5
        self.w_sums, self.w, self.a0 = [0.0] * 5, [0.2] * 5, 0.0
        self.t = self.n = self.n0 = self.delays = 0
        self.mean = self.v = self.m = self.size = self.b = 0.0

    def scale(self, j: int, t: int) -> float:
        if not self.n:
            return 0.0
        spread = min(max(t, self.n), H[j]) * (self.v + self.m) / (self.n + 1)
        return C[j] * math.sqrt(spread + G[j] * self.delays * (self.size / self.n) ** 2)

    def open(self, outstanding: int, eligible: list[int] | None, floor: float = 0.0) -> list[float]:
        self.t += 1
        self.delays += outstanding
        self.n0, self.b = self.n, self.mean
        among = list(range(self.k)) if eligible is None else eligible
        over = [self._expert(j, among) for j in J]
        self._mix()
        drawn = [sum(self.w[j] * over[j][k] for j in J) for k in range(self.k)]
        drawn = [(1 - floor) * p + (floor / len(among) if k in among else 0) for k, p in enumerate(drawn)]
        o = min(outstanding, 1_000 if self.default is None else 10_000)
        for j in J:
            self.q[j] = [(q * o + r) / (o + 1) for q, r in zip(self.q[j], over[j], strict=True)]
        self.pool = [(q * o + p) / (o + 1) for q, p in zip(self.pool, drawn, strict=True)]
        return drawn

    def _expert(self, j: int, among: list[int]) -> list[float]:
        """Its distribution over the eligible arms."""
        sums = [s * (1 - 1 / H[j]) for s in self.s[j]]
        sums = [s - min(sums) for s in sums]
        self.a[j] = a = self.scale(j, self.t)
        floor = min(0.25 / math.sqrt(min(self.t, H[j])), 0.25) / self.k
        if a > 0:
            lam, x = shares(sums, a)
            sums = [lam + a / math.sqrt(floor) if y < floor else s for s, y in zip(sums, x, strict=True)]
            self.p[j] = scaled([max(y, floor) for y in x])
        self.s[j] = sums
        if len(among) == self.k:
            return self.p[j]
        y = [1.0] * len(among)
        if a > 0:
            least = min(sums[k] for k in among)
            y = [max(each, floor) for each in shares([sums[k] - least for k in among], a)[1]]
        over = [0.0] * self.k
        for k, share in zip(among, scaled(y), strict=True):
            over[k] = share
        return over

    def _mix(self) -> None:
        self.w_sums = [w - min(self.w_sums) for w in self.w_sums]
        self.a0 = self.scale(0, self.t) / 2
        if self.a0 > 0:
            lam, x = shares(self.w_sums, self.a0)
            floor = min(0.25 / math.sqrt(self.t), 0.25) / 5
            raised = lam + self.a0 / math.sqrt(floor)
            self.w_sums = [raised if y < floor else w for w, y in zip(self.w_sums, x, strict=True)]
            self.w = scaled([max(y, floor) for y in x])

    def _step(self, k: int, d: float, fall: float, count: int) -> None:
        if not self.pool[k] > 0:
            return
        for j in J:
            z, y = self.a[j] / math.sqrt(self.p[j][k]), self.a0 / math.sqrt(self.w[j])
            self.s[j][k] += count * min(max(d / self.pool[k], -fall * z), z / 2)
            self.w_sums[j] += count * min(max(d * self.q[j][k] / self.pool[k], -fall * y), y / 2)

    def event(self, k: int, loss: float, count: int = 1) -> None:
        d = loss - self.b
        self._step(k, d, 0.25, count)
        if self.n0 > 0:
            self.v += count * d * d
            self.size += count * abs(d)
            self.m = max(self.m, d * d)
        self.n += count
        self.mean += count * (loss - self.mean) / self.n

    def charge(self, k: int) -> None:
        self.event(k, self.default or 0.0)

    def correct(self, k: int, loss: float) -> None:
        default = self.default or 0.0
        self._step(k, loss - default, 1.0, 1)
        d, e = loss - self.b, default - self.b
        if self.n0 > 0:
            self.v, self.size = max(self.v + d * d - e * e, 0), max(self.size + abs(d) - abs(e), 0)
            self.m = max(self.m, d * d)
        self.mean += (loss - default) / self.n

    def void(self, k: int) -> None:
        if self.default is None:
            return
        e = self.default - self.b
        self._step(k, e, 0.25, -1)
        if self.n0 > 0:
            self.v, self.size = max(self.v - e * e, 0), max(self.size - abs(e), 0)
        self.n -= 1
        self.mean = self.mean - (self.default - self.mean) / self.n if self.n else 0.0

    def remove_arms(self, positions: list[int]) -> None:
        def change(p: list[float]) -> list[float]:
            kept = [each for k, each in enumerate(p) if k not in positions]
            return scaled(kept) if sum(kept) > 0 else [1 / len(kept)] * len(kept)

        self._change(change)

    def add_arms(self, count: int) -> None:
        def change(p: list[float]) -> list[float]:
            n = len(p) + count
            return [each * len(p) / n for each in p] + [1 / n] * count

        self._change(change)

    def _change(self, change: Any) -> None:
        for j in J:
            keep, a = 1 - 1 / H[j], self.scale(j, self.t + 1)
            sums = [keep * s for s in self.s[j]]
            x = change(shares([s - min(sums) for s in sums], a)[1] if a > 0 else self.p[j])
            depths = [a / math.sqrt(y) for y in x]
            self.s[j] = [(depth - min(depths)) / keep for depth in depths]
            self.p[j], self.q[j] = change(self.p[j]), change(self.q[j])
        self.pool = change(self.pool)
        self.k = len(self.pool)
