"""How inducing inputs are chosen: k-means++ seeding with Lloyd's iterations, random rows, or all rows.

========  ========================================================================  =========
symbol    meaning                                                                   shape
========  ========================================================================  =========
x         rows that are looked at, less their mean                                  (n, d)
z         centres, less the same mean                                               (M, d)
D²        squared distance of each row to the nearest row chosen so far             (n,)
========  ========================================================================  =========

k-means++ (Arthur and Vassilvitskii 2007, section 2.2; of several candidates for each seed the one that lowers the sum
of D² most, as in their section 6) draws each further seed with probability proportional to D². Lloyd's iterations then
move each centre to the mean of the rows that are nearest to it. All squared distances come from one matrix product,

    |x - z|² = (x, |x|², 1) · (-2z, 1, |z|²),

so that nothing of shape (n, M, d) is formed; subtracting the mean first keeps the digits that this would cost.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from gpbench.errors import DataError, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpbench.model.rows import Array, Labels, Rows

    Index = npt.NDArray[np.int64]

__all__ = ["RULES", "InducingRule"]

RULES = ("mixed", "kmeans", "random", "all", "given", "none")
"""The rules: half k-means centres and half k-means++ seeds, centres of k-means, random rows, all rows, inputs that are
given (a split's active set), and none (for schemes without inducing inputs).

Centres lie where rows are dense, seeds (rows that are far from one another) cover the rest. Test NLL of x-gpc with 100
centres, half of each, 100 seeds: ringnorm 0.111, 0.108, 0.114 (20 runs); magic 0.312, 0.307, 0.304 (four folds);
ijcnn1 0.0616, 0.0607, 0.0601 (one fold); no difference on banana, electricity and diabetes."""

_STILL = 1e-4
"""Lloyd's iterations end where the squared moves of all centres sum to less than this times the mean variance."""
_BLOCK = 1 << 17
"""Distances computed together: 1 MB, which stays in the cache, whatever the number of rows."""


@dataclass(frozen=True)
class InducingRule:
    """A rule that chooses inducing inputs; the same rule and rows give the same inputs.

    The defaults here are those of every scheme's settings.

    Parameters
    ----------
    rule : {"mixed", "kmeans", "random", "all", "given", "none"}
        ``all`` gives all rows in their order, duplicates too; ``given`` gives Z.
    count : str or int
        A number (``"100"``), a percentage of the rows (``"3%"``), or ``"all"``, which makes any rule ``all``.
    seed : int
        From which the choice is drawn.
    rows : int
        k-means looks at no more than this many random rows.
    steps : int
        Lloyd's iterations at most. After 20 the sum of squared distances is within 1 % of its limit, and the choice
        runs on the clock.
    Z : (M, d) or None
        The inputs of ``given``, whatever the count; None for the other rules.
    targets : (M,) or None
        The targets of these inputs, where they are rows of the data set: what subset-of-data schemes train on.

    Raises
    ------
    UsageError
        Unknown rule, a count that is none of these, or inputs given to another rule than ``given``.
    """

    rule: str = "mixed"
    count: str | int = "100"
    seed: int = 0
    rows: int = 20_000
    steps: int = 20
    Z: Array | None = field(default=None, repr=False, compare=False)
    targets: Labels | None = field(default=None, repr=False, compare=False)

    @classmethod
    def of(
        cls,
        settings: Mapping[str, Any],
        *,
        seed: int,
        active: Array | None = None,
        targets: Labels | None = None,
    ) -> InducingRule:
        """The rule that gives a method its inducing inputs.

        Parameters
        ----------
        settings : mapping
            Of the method; without ``inducing`` it has no inducing inputs and the rule is ``none``.
        seed : int
            Of the split, so that methods with the same rule share their inducing inputs.
        active : (M, d), optional
            The split's active set, which takes the place of the rule that the settings name.
        targets : (M,), optional
            Its targets.

        Raises
        ------
        UsageError
            The settings name a rule or a count that is none.
        """
        if "inducing" not in settings:
            return cls("none", seed=seed)
        if active is not None:
            return cls("given", count=len(active), seed=seed, Z=active, targets=targets)
        more = {name: settings[f"kmeans_{name}"] for name in ("rows", "steps") if f"kmeans_{name}" in settings}
        return cls(settings.get("inducing_rule", cls.rule), count=settings["inducing"], seed=seed, **more)

    def __post_init__(self) -> None:
        if self.rule not in RULES:
            raise UsageError(f"inducing rule must be one of {', '.join(RULES)}; got {self.rule!r}")
        if self.rows < 1:
            raise UsageError(f"k-means needs at least one row to look at; got {self.rows}")
        if self.steps < 1:
            raise UsageError(f"k-means needs at least one of Lloyd's iterations; got {self.steps}")
        if (self.Z is not None) != (self.rule == "given"):
            got = f"rule {self.rule} {'without' if self.Z is None else 'with'} Z"
            raise UsageError(f"the rule given, and no other, expects inducing inputs Z; got {got}")
        if self.targets is not None and (self.Z is None or len(self.targets) != len(self.Z)):
            raise UsageError(f"targets need inducing inputs Z that are as many; got {len(self.targets)} targets")
        self._parsed()

    def number(self, n: int) -> int:
        """Number of inducing inputs for n rows.

        Raises
        ------
        UsageError
            There are fewer rows than inducing points, or the rule is ``none``.
        """
        if self.rule == "none":
            raise UsageError("this scheme takes no inducing inputs, yet they were asked for")
        if self.Z is not None:
            return len(self.Z)
        amount, percent = self._parsed()
        if self.rule == "all" or math.isinf(amount):
            return n
        M = max(1, round(amount / 100 * n)) if percent else int(amount)
        if n < M:
            raise UsageError(
                f"fewer rows than inducing points: {n} rows, {M} inducing points (count {self.count}); "
                f"inducing={self.fits(n)} fits"
            )
        return M

    @staticmethod
    def fits(n: int) -> int:
        """A round number of inducing inputs that n rows can have: what messages recommend."""
        return n // 10 * 10 or n

    def choose(self, X: Rows) -> Array:
        """Inducing inputs Z (M, d) for rows X (n, d).

        ``mixed``, ``kmeans`` and ``random`` never give the same input twice. Where the rows looked at hold fewer
        distinct ones than were asked for, Z holds each of those once and M is smaller than ``number(n)``.

        Raises
        ------
        UsageError
            There are fewer rows than inducing points, the rule is ``none``, or the inputs given have other columns.
        DataError
            A row that was chosen or looked at holds NaN or infinity, or, for k-means, numbers with infinite squares.
        """
        n = len(X)
        M = self.number(n)
        if self.Z is not None:
            if self.Z.ndim != 2 or self.Z.shape[1] != X.shape[1]:
                raise UsageError(f"expected inducing inputs of shape (M, {X.shape[1]}); got {self.Z.shape}")
            return _finite(np.array(self.Z, dtype=np.float64))
        if self.rule == "all" or self._parsed() == (math.inf, False):
            return _finite(np.array(X[0:n], dtype=np.float64))
        if self.rule == "random":
            return _take(X, self._random(X))
        rng = np.random.default_rng(self.seed)
        sample = X[0:n] if n <= self.rows else _take(X, rng.choice(n, size=max(M, self.rows), replace=False))
        rows = _finite(np.ascontiguousarray(sample, dtype=np.float64))
        return _clustered(rows, M, centres=M - M // 2 if self.rule == "mixed" else M, steps=self.steps, rng=rng)

    def for_latent(self, c: int) -> InducingRule:
        """The rule of the c-th latent function: the same way of choosing, from a seed of its own (c = 0: this rule)."""
        if c == 0:
            return self
        return replace(self, seed=int(np.random.SeedSequence([self.seed, c]).generate_state(1)[0]))

    def active_set(self, X: Rows, y: Labels) -> tuple[Array, Labels | None]:
        """Inducing inputs Z (M, d), and their targets (M,) where they are rows: random ones, all, or given with them.

        Raises
        ------
        UsageError, DataError
            As ``choose``.
        """
        Z = self.choose(X)
        if self.Z is not None:
            return Z, self.targets
        if self.rule == "all" or self._parsed() == (math.inf, False):
            return Z, np.asarray(y)
        return Z, np.asarray(y)[self._random(X)] if self.rule == "random" else None

    def _random(self, X: Rows) -> Index:
        """Numbers of random rows, no two of them the same input."""
        n = len(X)
        M = self.number(n)
        rng = np.random.default_rng(self.seed)
        chosen = rng.choice(n, size=M, replace=False)
        distinct = chosen[_first_occurrences(_finite(_take(X, chosen)))]
        if len(distinct) < M:
            others = rng.permutation(n) if n <= self.rows else rng.choice(n, size=max(M, self.rows), replace=False)
            more = np.concatenate([distinct, others])
            distinct = more[_first_occurrences(_finite(_take(X, more)))][:M]
        return distinct

    def _parsed(self) -> tuple[float, bool]:
        """Amount (infinite for ``all``) and whether it is a percentage."""
        text = str(self.count).strip()
        if text == "all":
            return math.inf, False
        percent = text.endswith("%")
        try:
            amount = float(text.removesuffix("%")) if percent else int(text)
        except ValueError:
            amount = math.nan
        if not (amount > 0 and (amount <= 100 or not percent)):  # also catches NaN
            raise UsageError(
                "the number of inducing points must be a whole number such as 100, a percentage up to 100% such as 3%, "
                f"or all; got {self.count!r}"
            )
        return float(amount), percent


def _take(X: Rows, index: Index) -> Array:
    """Rows in the order of ``index``, read in ascending order, which is what a memory-mapped file likes."""
    order = np.argsort(index)
    sorted_rows = np.asarray(X[index[order]], dtype=np.float64)
    rows = np.empty_like(sorted_rows)
    rows[order] = sorted_rows
    return rows


def _finite(rows: Array) -> Array:
    if not np.isfinite(rows).all():
        raise DataError("inducing inputs need finite rows; got NaN or infinity among them")
    return rows


def _first_occurrences(rows: Array) -> Index:
    """Where distinct rows appear first, ascending."""
    _, first = np.unique(rows, axis=0, return_index=True)
    return np.sort(first)


def _clustered(rows: Array, M: int, *, centres: int, steps: int, rng: np.random.Generator) -> Array:
    """Centres of k-means and, up to M in all, the seeds that they started from; (M, d), no two the same.

    Rows that hold fewer than M distinct ones are answered with each of those once.
    """
    cloud = _Cloud(rows)
    chosen = cloud.seeds(M, rng)
    seeds = rows[chosen]
    if len(chosen) < M:
        return seeds
    Z = np.concatenate([cloud.lloyd(seeds[:centres], steps), seeds])
    # A cluster of one row, or of equal ones, has its seed as its centre: the next seed takes that one's place.
    return Z[_Cloud(Z).first_occurrences()][:M]


class _Cloud:
    """Rows (n, d), prepared for squared distances to any points.

    Distances that are rounding alone, of rows that are equal, are found by their size: (d + 4) units in the last place
    of |x|² + |z|².
    """

    def __init__(self, rows: Array) -> None:
        n, d = rows.shape
        self._mean = rows.mean(axis=0)
        self._columns = np.empty((d + 2, n))  # x, |x|², 1
        np.subtract(rows.T, self._mean[:, None], out=self._columns[:d])
        np.einsum("dn,dn->n", self._columns[:d], self._columns[:d], out=self._columns[d])
        if not np.isfinite(self._columns[d]).all():
            largest = float(np.abs(rows).max())
            raise DataError(f"k-means needs rows whose squares are numbers; got values up to {largest:.3g}")
        self._columns[d + 1] = 1.0
        self._rounding = (d + 4) * np.finfo(np.float64).eps

    def seeds(self, M: int, rng: np.random.Generator) -> Index:
        """Numbers of M rows by k-means++, no two of them equal; fewer where there are no more distinct ones."""
        n, squares = self._columns.shape[1], self._columns[-2]
        candidates = rng.integers(n, size=1)
        nearest = np.full(n, np.inf)
        chosen: list[int] = []
        while True:
            distances = self._left(self._columns[:-2, candidates].T) @ self._columns
            np.minimum(distances, nearest, out=distances)
            best = int(distances.sum(axis=1).argmin())
            row = int(candidates[best])
            chosen.append(row)
            nearest = distances[best]
            nearest[nearest <= self._rounding * (squares + squares[row])] = 0.0
            total = np.cumsum(nearest)
            if len(chosen) == M or not total[-1] > 0.0:
                return np.array(chosen)
            drawn = total[-1] * rng.random(2 + int(math.log(M)))
            # a draw that is rounded up to the total means the last row that has a share of it
            candidates = np.minimum(np.searchsorted(total, drawn, side="right"), np.searchsorted(total, total[-1]))

    def lloyd(self, Z: Array, steps: int) -> Array:
        """Centres (M, d) after Lloyd's iterations from Z (M, d), ``steps`` at most.

        A cluster that has lost its rows goes on from the row that is farthest from its own centre, the second such
        cluster from the second farthest, and so on.
        """
        x, M = self._columns[:-2], len(Z)
        still = _STILL * float(x.var(axis=1).mean())
        z, before = Z - self._mean, None
        for _ in range(steps):
            nearest, distances = self._assigned(z)
            counts = np.bincount(nearest, minlength=M)
            sums = np.stack([np.bincount(nearest, weights=column, minlength=M) for column in x], axis=1)
            moved = sums / np.maximum(counts, 1)[:, None]
            empty = np.flatnonzero(counts == 0)
            if empty.size:
                moved[empty] = x[:, np.argsort(-distances, kind="stable")[: empty.size]].T
            change = float(np.square(moved - z).sum())
            z = moved
            if change <= still or (before is not None and np.array_equal(nearest, before)):
                break
            before = nearest
        return np.asarray(z + self._mean)

    def first_occurrences(self) -> Index:
        """Where distinct rows appear first, ascending; rows that differ by rounding alone count as equal."""
        n, squares = self._columns.shape[1], self._columns[-2]
        first, left, size = np.ones(n, dtype=bool), self._left(self._columns[:-2].T), max(1, _BLOCK // n)
        for start in range(0, n, size):
            block, before = slice(start, start + size), slice(0, start + size)
            distances = left[block] @ self._columns[:, before]
            equal = distances <= self._rounding * (squares[block, None] + squares[before])
            first[block] = ~np.tril(equal, start - 1).any(axis=1)
        return np.flatnonzero(first)

    def _assigned(self, z: Array) -> tuple[Index, Array]:
        """The nearest of the centres z (M, d) and the squared distance to it, each of shape (n,)."""
        n, M = self._columns.shape[1], len(z)
        right, size = self._left(z).T, max(1, _BLOCK // M)
        nearest, distances = np.empty(n, dtype=np.int64), np.empty(n)
        for start in range(0, n, size):
            block = slice(start, start + size)
            found = self._columns[:, block].T @ right
            found.argmin(axis=1, out=nearest[block])
            distances[block] = np.take_along_axis(found, nearest[block, None], axis=1)[:, 0]
        return nearest, distances

    @staticmethod
    def _left(z: Array) -> Array:
        """(-2z, 1, |z|²) of points z (m, d), which have lost the mean already; shape (m, d + 2)."""
        m, d = z.shape
        left = np.empty((m, d + 2))
        np.multiply(z, -2.0, out=left[:, :d])
        left[:, d] = 1.0
        np.einsum("md,md->m", z, z, out=left[:, d + 1])
        return left
