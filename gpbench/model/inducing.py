"""How inducing inputs are chosen: k-means++ seeding with Lloyd's iterations, random rows, or all rows."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from sklearn.cluster import KMeans, kmeans_plusplus
from sklearn.exceptions import ConvergenceWarning

from gpbench.errors import DataError, UsageError

if TYPE_CHECKING:
    from gpbench.model.rows import Array, Labels, Rows

    Index = npt.NDArray[np.int64]

__all__ = ["RULES", "InducingRule"]

RULES = ("mixed", "kmeans", "random", "all", "given", "none")
"""The rules: half k-means centres and half k-means++ seeds, centres of k-means, random rows, all rows, inputs that are
given (a split's active set), and none (for schemes without inducing inputs).

Centres lie where rows are dense, seeds (rows that are far from one another) cover the rest. Test NLL of x-gpc with 100
centres, half of each, 100 seeds: ringnorm 0.111, 0.108, 0.114 (20 runs); magic 0.312, 0.307, 0.304 (four folds);
ijcnn1 0.0616, 0.0607, 0.0601 (one fold); no difference on banana, electricity and diabetes."""

_LLOYD_ITERATIONS = 20
"""Lloyd's iterations at most. After 20 the distortion is within 1 % of its limit and the choice runs on the clock."""


@dataclass(frozen=True)
class InducingRule:
    """A rule that chooses inducing inputs; the same rule and rows give the same inputs.

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
    Z : (M, d) or None
        The inputs of ``given``, whatever the count; None for the other rules.
    targets : (M,) or None
        The targets of these inputs, where they are rows of the data set: what subset-of-data schemes train on.

    Raises
    ------
    UsageError
        Unknown rule, a count that is none of these, or inputs given to another rule than ``given``.
    """

    rule: str
    count: str | int = "100"
    seed: int = 0
    rows: int = 20_000
    Z: Array | None = field(default=None, repr=False, compare=False)
    targets: Labels | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.rule not in RULES:
            raise UsageError(f"inducing rule must be one of {', '.join(RULES)}; got {self.rule!r}")
        if self.rows < 1:
            raise UsageError(f"k-means needs at least one row to look at; got {self.rows}")
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
            raise UsageError(f"fewer rows than inducing points: {n} rows, {M} inducing points (count {self.count})")
        return M

    def choose(self, X: Rows) -> Array:
        """Inducing inputs Z (M, d) for rows X (n, d).

        ``mixed``, ``kmeans`` and ``random`` never give the same input twice. Where the rows looked at hold fewer
        distinct ones than were asked for, Z holds each of those once and M is smaller than ``number(n)``.

        Raises
        ------
        UsageError
            There are fewer rows than inducing points, the rule is ``none``, or the inputs given have other columns.
        DataError
            A row that was chosen or looked at holds NaN or infinity.
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
        seed = int(rng.integers(2**31))
        return _mixed(rows, M, seed=seed) if self.rule == "mixed" else _kmeans(rows, M, seed=seed)

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
        distinct = chosen[_first_places(_finite(_take(X, chosen)))]
        if len(distinct) < M:
            others = rng.permutation(n) if n <= self.rows else rng.choice(n, size=max(M, self.rows), replace=False)
            more = np.concatenate([distinct, others])
            distinct = more[_first_places(_finite(_take(X, more)))][:M]
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
            raise UsageError(f"the number of inducing points must be like 100, 3% or all; got {self.count!r}")
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


def _distinct(rows: Array) -> Array:
    """Distinct rows in the order of their first appearance."""
    return rows[_first_places(rows)]


def _first_places(rows: Array) -> Index:
    """Where distinct rows appear first, ascending."""
    _, first = np.unique(rows, axis=0, return_index=True)
    return np.sort(first)


def _kmeans(rows: Array, M: int, *, seed: int) -> Array:
    """Centres of k-means++ and Lloyd; the distinct rows themselves where there are no more than M."""
    model = KMeans(M, init="k-means++", n_init=1, max_iter=_LLOYD_ITERATIONS, random_state=seed, algorithm="lloyd")
    with warnings.catch_warnings():
        # fewer distinct rows than centres: dealt with below
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(rows)
    Z = _distinct(np.asarray(model.cluster_centers_, dtype=np.float64))
    if len(Z) < M or len(np.unique(model.labels_)) < M:
        distinct = _distinct(rows)
        return distinct if len(distinct) <= M else Z
    return Z


def _mixed(rows: Array, M: int, *, seed: int) -> Array:
    """Half centres, half seeds; the distinct rows themselves where there are no more than M."""
    centres = _kmeans(rows, M - M // 2, seed=seed)
    if M == 1:
        return centres
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # fewer distinct rows than seeds: dealt with below
        seeds, _ = kmeans_plusplus(rows, M // 2, random_state=seed)
    Z = _distinct(np.concatenate([centres, seeds]))
    if len(Z) == M:
        return Z
    distinct = _distinct(rows)
    if len(distinct) <= M:
        return distinct
    return _distinct(np.concatenate([Z, np.random.default_rng(seed).permutation(distinct)]))[:M]
