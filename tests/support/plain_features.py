"""The rule of multiscale_tsallis with features written out, with inverses; the learner is compared with it."""

import math
from typing import Any

import numpy as np

from .plain_multiscale import FALL, FALL_CORRECTION, C, H, PlainMultiscale, clip, scaled

EXPERTS = ((0, 1.0), (0, 8.0), (1, 1.0), (1, 8.0))
"""(regression, rate) of experts 8 to 11."""
MEMORY, RIDGE = (math.inf, 400.0), 10.0


class PlainFeatures(PlainMultiscale):
    """With the rule's letters; ``x`` and ``ratio`` None are unknown."""

    costs, meta = (*C, 3.0, 3.0, 3.0, 3.0), 0.25

    def __init__(self, n_arms: int, d: int, default: float | None, floor: float, initial: Any = None):
        super().__init__(n_arms, default, initial)
        self.d, self.floor, self.s_open, self.v_open = d, floor, 0, 0.0
        self.w_sums, self.w = [0.0] * 11, [1 / 11] * 11
        self.gram, self.cross = np.zeros((2, n_arms, d, d)), np.zeros((2, n_arms, d))
        self.g, self.e = np.zeros((2, n_arms, d)), np.zeros((2, n_arms, d))
        self.over_all = [[1 / n_arms] * n_arms] * 7
        self.fresh: dict[int, list[Any]] = {}
        for k, acts, mean in initial or ():
            self.gram[:, k, 0, 0] = acts, min(acts, MEMORY[1])
            self.cross[:, k, 0] = self.gram[:, k, 0, 0] * mean
            self._touch(k)

    def _touch(self, k: int) -> list[Any]:
        return self.fresh.setdefault(k, [0, np.zeros((self.d, self.d)), np.zeros(self.d)])

    def _merge(self, k: int) -> None:
        n, products, losses = self.fresh.pop(k)
        for m, h in enumerate(MEMORY):
            self.gram[m, k] = (1 - 1 / h) ** n * self.gram[m, k] + products
            self.cross[m, k] = (1 - 1 / h) ** n * self.cross[m, k] + losses
            inverse = self._inverse(m, k)
            self.g[m, k], self.e[m, k] = inverse @ self.cross[m, k], inverse @ self.gram[m, k][:, 0]

    def _inverse(self, m: int, k: int) -> Any:
        return np.linalg.inv(self.gram[m, k] + RIDGE * np.eye(self.d))

    def predict(self, m: int, k: int, x: Any) -> float:
        return float(self.b + x @ self.g[m, k] - self.b * (x @ self.e[m, k]))

    def gaps(self, y: list[float], rate: float, among: list[int]) -> list[float]:
        if not self.v_open:
            return [1 / len(among) if k in among else 0.0 for k in range(self.k)]
        least, tied = min(y[k] for k in among), 1e-9 * math.sqrt(self.v_open)
        best = next(k for k in among if y[k] - least <= tied)
        scale = rate * math.sqrt(self.s_open * len(among) / self.v_open)
        r = [0.0] * self.k
        for k in among:
            r[k] = 0.0 if k == best else 1 / (len(among) + scale * (y[k] - y[best]))
        r[best] = 1 - sum(r)
        return r

    def open_for(self, x: Any, outstanding: int, among: list[int]) -> list[float]:
        self.t += 1
        self.delays += outstanding
        self.n0, self.b = self.n, self.mean
        for i, h in enumerate(H):
            self.counts[i] = [(1 - 1 / h) * each for each in self.counts[i]]
            self.totals[i] = [(1 - 1 / h) * each for each in self.totals[i]]
        self.s_open, self.v_open = max(self.t - self.dropped, self.n), self.variance()
        for k in list(self.fresh):
            self._merge(k)
        for j in range(4):
            self._solve(j)
        self._mix()
        self.over_all, self.r = self.experts(list(range(self.k))), self.experts(among)
        for m, rate in EXPERTS:
            self.r = [*self.r, self.gaps([self.predict(m, k, x) for k in range(self.k)], rate, among)]
        self.drawn = self.floored(self.mixed(self.r), among, self.floor)
        o = min(outstanding, 1_000 if self.default is None else 10_000)
        self.pool = [(q * o + p) / (o + 1) for q, p in zip(self.pool, self.drawn, strict=True)]
        return self.drawn

    def act_ratio(self, k: int) -> list[float]:
        return [float(np.float16(min(r[k] / self.drawn[k], 60_000.0))) for r in self.r]

    def advised(self, x: Any, left_out: tuple[int, float] | None = None) -> list[list[float]]:
        f = [*self.over_all]
        for m, rate in EXPERTS:
            y = [self.predict(m, k, x) for k in range(self.k)]
            if left_out is not None:
                k, loss = left_out
                h = min(float(x @ self._inverse(m, k) @ x), 0.9)
                y[k] += h / (1 - h) * (y[k] - loss)
            f.append(self.gaps(y, rate, list(range(self.k))))
        return f

    def visit(self, x: Any, among: list[int]) -> list[float]:
        p = self.floored(self.mixed(self.advised(x)), list(range(self.k)), self.floor)
        return scaled([each if k in among else 0.0 for k, each in enumerate(p)])

    def known_x(self, k: int, x: Any) -> Any:
        first = self.gram[0, k][:, 0]
        return x if x is not None else first / first[0] if first[0] else np.eye(self.d)[0]

    def _ratio(self, k: int, x: Any, ratio: Any, loss: float | None) -> list[float]:
        if ratio is not None:
            return list(ratio)
        f = [each[k] for each in self.advised(self.known_x(k, x), None if loss is None else (k, loss))]
        mixed = sum(w * each for w, each in zip(self.w, f, strict=True))
        return [each / ((1 - self.floor) * mixed + self.floor / self.k) for each in f]

    def _step_by(self, k: int, d: float, fall: float, ratio: list[float], count: int) -> None:
        for j in range(4):
            if self.pool[k] > 0:
                self.s[j][k] += count * clip(d / self.pool[k], fall, self.a[j] / math.sqrt(self.p[j][k]))
        for j in range(11):
            if self.a0 > 0:
                self.w_sums[j] += count * clip(d * ratio[j], fall, self.a0 / math.sqrt(self.w[j]))

    def _step(self, k: int, d: float, fall: float, count: int) -> None:
        """W and S are moved by ``_step_by``."""

    def told(self, k: int, loss: float, x: Any, ratio: Any) -> None:
        self._step_by(k, loss - self.b, FALL, self._ratio(k, x, ratio, None), 1)
        x, fresh = self.known_x(k, x), self._touch(k)
        fresh[0] += 1
        fresh[1] = fresh[1] + np.outer(x, x)
        fresh[2] = fresh[2] + x * loss
        self.event(k, loss)

    def corrected(self, k: int, loss: float, before: float, x: Any, ratio: Any) -> None:
        self._step_by(k, loss - before, FALL_CORRECTION, self._ratio(k, x, ratio, before), 1)
        self._touch(k)[2] = self._touch(k)[2] + self.known_x(k, x) * (loss - before)
        self.update(k, loss, before)

    def voided(self, k: int, x: Any, ratio: Any) -> None:
        default = self.default or 0.0
        if self.default is not None:
            x = self.known_x(k, x)
            self._step_by(k, default - self.b, FALL, self._ratio(k, x, ratio, default), -1)
            if k in self.fresh:
                self._merge(k)
            for m in range(2):
                h = min(float(x @ self._inverse(m, k) @ x), 0.9)
                y = self.predict(m, k, x)
                self.cross[m, k] = self.cross[m, k] + x * ((y - h * default) / (1 - h) - default)
            self._touch(k)
        self.void(k)

    def remove(self, positions: list[int]) -> None:
        self._kept([k for k in range(self.k) if k not in positions])
        self.remove_arms(positions)
        self.over_all = [scaled([p for k, p in enumerate(row) if k not in positions]) for row in self.over_all]

    def add(self, count: int) -> None:
        n = self.k
        self.add_arms(count)
        self.over_all = [[p * n / self.k for p in row] + [1 / self.k] * count for row in self.over_all]
        for name in ("gram", "cross", "g", "e"):
            old = getattr(self, name)
            new = np.zeros((2, count, *old.shape[2:]))
            setattr(self, name, np.concatenate((old, new), axis=1))

    def _kept(self, kept: list[int]) -> None:
        for name in ("gram", "cross", "g", "e"):
            setattr(self, name, getattr(self, name)[:, kept])
        self.fresh = {place: self.fresh[k] for place, k in enumerate(kept) if k in self.fresh}
