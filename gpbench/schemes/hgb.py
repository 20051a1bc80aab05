"""hgb: scikit-learn's histogram gradient boosting, which most tables of a practitioner begin with.

Settings have scikit-learn's names and defaults. With ``candidates`` more than one, the first is these settings and the
others are drawn from :data:`SPACE`; each is trained on four fifths of the rows with up to ``max_iter`` trees, cut where
its NLL on the other fifth is least, and the best is trained once more on all rows: a budget of so many models, stated
by the setting.

The trees are kept as arrays, so that a model is saved without pickles. A row goes to the left where its value is at
most the threshold.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from gpbench.model.classes import ClassPosterior
from gpbench.model.posterior import register_posterior
from gpbench.schemes.base import run_training, setting
from gpbench.schemes.tuning import Opponent, Trained, Tuning

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sklearn.ensemble import HistGradientBoostingClassifier

    from gpbench.model.rows import Array, Labels
    from gpbench.schemes.base import Fit, OnStep

__all__ = ["HGB", "BoostedTrees"]

SPACE = {
    "learning_rate": (0.02, 0.05, 0.1, 0.2),
    "max_leaf_nodes": (4, 8, 16, 31, 63),
    "min_samples_leaf": (5, 20, 60),
    "l2_regularization": (0.0, 1.0, 10.0),
}
"""Values that candidates are drawn from, each setting for itself."""


@dataclass(frozen=True, kw_only=True)
class HGB(Opponent):
    """Gradient boosting of trees on binned inputs, log loss."""

    learning_rate: float = setting(0.1, "shrinkage of each tree", minimum=1e-6, maximum=1.0)
    max_iter: int = setting(100, "trees at most, for each class where there are more than two", minimum=1)
    max_leaf_nodes: int = setting(31, "leaves of a tree at most", minimum=2)
    min_samples_leaf: int = setting(20, "least rows of a leaf", minimum=1)
    l2_regularization: float = setting(0.0, "weight of the squared values of leaves", minimum=0.0, maximum=1e9)
    early_stopping: str = setting(
        "auto",
        "whether a tenth of the rows says when to stop; auto: from 10,001 rows on; a choice among candidates takes the "
        "place of it",
        choices=("auto", "yes", "no"),
    )
    candidates: int = setting(1, "settings that are tried on held-out rows, these first; 1: none but these", minimum=1)
    validation_rows: int = setting(
        20_000, "random rows that the choice uses at most, a fifth of them held out", minimum=3
    )
    max_rows: int = setting(1_000_000, "random rows that are used at most; all of them are held in memory", minimum=10)

    name: ClassVar[str] = "hgb"
    libraries: ClassVar[tuple[str, ...]] = ("sklearn.ensemble",)

    def train(self, X: Array, y: Labels, *, classes: int, rng: np.random.Generator, on_step: OnStep) -> Fit:
        """Train; an iteration is a model that is trained."""
        return run_training(self.name, lambda: HGBTraining(self, X, y, classes=classes, rng=rng), on_step)


class HGBTraining(Tuning[HGB]):
    """Candidates are settings."""

    def __init__(self, scheme: HGB, X: Array, y: Labels, *, classes: int, rng: np.random.Generator) -> None:
        def draw() -> dict[str, Any]:
            return {name: values[rng.integers(len(values))] for name, values in SPACE.items()}

        drawn = [replace(scheme, **draw()) for _ in range(scheme.candidates - 1)]
        self._seed = int(rng.integers(2**31))
        super().__init__(X, y, classes=classes, candidates=[scheme, *drawn], most=scheme.validation_rows, rng=rng)

    def fit(self, candidate: HGB, X: Array, y: Labels, *, validation: tuple[Array, Labels] | None) -> Trained[HGB]:
        """Boosting, for so many rounds as it has trees; cut where the validation rows' NLL is least."""
        from sklearn.ensemble import HistGradientBoostingClassifier  # noqa: PLC0415 - see Opponent

        absent = np.bincount(y, minlength=self.classes) == 0
        if (~absent).sum() == 1:
            trees = BoostedTrees.constant(X.shape[1], absent=absent, rows=len(y))
            nll = math.nan if validation is None else -float(trees.score(*validation).log_density.mean())
            return Trained(trees, candidate, nll, "converged")
        stopping: Any = {"auto": "auto", "yes": True, "no": False}[candidate.early_stopping]
        model = HistGradientBoostingClassifier(
            learning_rate=candidate.learning_rate,
            max_iter=candidate.max_iter,
            max_leaf_nodes=candidate.max_leaf_nodes,
            min_samples_leaf=candidate.min_samples_leaf,
            l2_regularization=candidate.l2_regularization,
            early_stopping=stopping if self.single else False,
            random_state=self._seed,
        ).fit(X, y)
        nll = math.nan
        trees = BoostedTrees.of(model, absent=absent, rows=len(y))
        if validation is not None:
            looks = _looks(model.n_iter_)
            losses = trees.losses(*validation, looks=looks)
            best = int(np.argmin(losses))
            nll, kept = float(losses[best]), looks[best]
            trees, candidate = trees.first(kept), replace(candidate, max_iter=kept)
        if not (self.single and model.do_early_stopping_):
            return Trained(trees, candidate, nll, "schedule")  # nobody meant more trees than these
        return Trained(trees, candidate, nll, "converged" if model.n_iter_ < candidate.max_iter else "iterations")

    def chosen(self, candidate: HGB) -> dict[str, Any]:
        """Its settings."""
        return {name: getattr(candidate, name) for name in (*SPACE, "max_iter")}


def _looks(trees: int) -> list[int]:
    """Numbers of trees at which validation looks: all up to 10, then a tenth more each."""
    found = [1]
    while found[-1] < trees:
        found.append(min(trees, max(found[-1] + 1, math.ceil(1.1 * found[-1]))))
    return found


@dataclass(frozen=True, eq=False)
class BoostedTrees(ClassPosterior):
    """Trees whose values sum up to scores.

    Parameters
    ----------
    feature : (N,)
        Of each node, the column that it looks at; -1: a leaf.
    threshold, value : (N,)
    left, right : (N,)
        Nodes that follow; a leaf is followed by itself.
    roots : (T, K)
        First nodes of T trees for each of K scores; one score where two classes were seen: the log odds.
    baseline : (K,)
        Scores before the first tree.
    columns : int
        Number of inputs.
    absent : (C,)
        Classes that training did not see.
    rows : int
        Number of training rows.
    """

    feature: npt.NDArray[np.int32]
    threshold: Array
    value: Array
    left: npt.NDArray[np.int32]
    right: npt.NDArray[np.int32]
    roots: npt.NDArray[np.int32]
    baseline: Array
    columns: int
    absent: npt.NDArray[np.bool_]
    rows: int

    kind: ClassVar[str] = "boosted-trees"
    block: ClassVar[int] = 1024

    @classmethod
    def of(cls, model: HistGradientBoostingClassifier, *, absent: npt.NDArray[np.bool_], rows: int) -> BoostedTrees:
        """The trees of a fitted model."""
        trees = [tree.nodes for stage in model._predictors for tree in stage]  # noqa: SLF001 - there is no other way
        sizes = np.array([len(nodes) for nodes in trees])
        starts = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int32)
        nodes = np.concatenate(trees)
        offset = np.repeat(starts, sizes)
        leaf = nodes["is_leaf"].astype(bool)
        own = np.arange(len(nodes), dtype=np.int32)
        return cls(
            feature=np.where(leaf, -1, nodes["feature_idx"]).astype(np.int32),
            threshold=np.where(leaf, 0.0, nodes["num_threshold"]),
            value=np.where(leaf, nodes["value"], 0.0),
            left=np.where(leaf, own, nodes["left"] + offset).astype(np.int32),
            right=np.where(leaf, own, nodes["right"] + offset).astype(np.int32),
            roots=starts.reshape(len(model._predictors), -1),  # noqa: SLF001
            baseline=np.asarray(model._baseline_prediction, dtype=np.float64).reshape(-1),  # noqa: SLF001
            columns=model.n_features_in_,
            absent=absent,
            rows=rows,
        )

    @classmethod
    def constant(cls, columns: int, *, absent: npt.NDArray[np.bool_], rows: int) -> BoostedTrees:
        """One class alone was seen."""
        leaf, nothing = np.zeros(1, dtype=np.int32), np.zeros(1)
        return cls(leaf - 1, nothing, nothing, leaf, leaf, leaf.reshape(1, 1), nothing, columns, absent, rows)

    def first(self, trees: int) -> BoostedTrees:
        """The model of the first trees alone."""
        roots = self.roots[:trees]
        end = len(self.feature) if trees >= len(self.roots) else int(self.roots[trees, 0])
        cut = {name: getattr(self, name)[:end] for name in ("feature", "threshold", "value", "left", "right")}
        return replace(self, roots=roots, **cut)

    @property
    def inputs(self) -> int:
        """Number of columns, d."""
        return self.columns

    def scores(self, X: Array) -> Array:
        """Scores (b, K) of the classes that training has seen."""
        return self._paired(self.baseline + self._values(X).sum(axis=0))

    def losses(self, X: Array, y: Labels, *, looks: list[int]) -> Array:
        """NLL (nats) of labels y (n,) at rows X (n, d) under the first trees alone, for each number of them."""
        total = np.zeros(len(looks))
        for start in range(0, len(X), self.block):
            part = slice(start, start + self.block)
            values, observed = np.cumsum(self._values(X[part]), axis=0), y[part, None]
            for index, trees in enumerate(looks):
                log_p = self.normalised(self._paired(self.baseline + values[trees - 1]))
                total[index] -= np.take_along_axis(log_p, observed, axis=1).sum()
        return total / len(X)

    def _values(self, X: Array) -> Array:
        """What each tree adds to each score, shape (T, b, K)."""
        T, K = self.roots.shape
        rows = np.arange(len(X))
        at = np.repeat(self.roots.reshape(-1, 1), len(X), axis=1)  # every tree and row goes down together
        while True:
            feature = self.feature[at]
            if (feature < 0).all():
                return self.value[at].reshape(T, K, len(X)).transpose(0, 2, 1)
            at = np.where(X[rows, feature] <= self.threshold[at], self.left[at], self.right[at])

    def _paired(self, scores: Array) -> Array:
        """Scores of both classes where there is one for the log odds."""
        if len(self.baseline) == 1 and (~self.absent).sum() == 2:
            return np.concatenate([np.zeros_like(scores), scores], axis=1)
        return scores

    def parts(self) -> dict[str, npt.NDArray[Any]]:
        """Nodes, roots, baseline, and the classes that are absent."""
        names = ("feature", "threshold", "value", "left", "right", "roots", "baseline", "absent")
        return {**{name: getattr(self, name) for name in names}, "columns": np.array(self.columns)}


def _build(meta: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> BoostedTrees:
    parts: dict[str, Any] = {**arrays, "columns": int(arrays["columns"])}
    return BoostedTrees(**parts, rows=meta["rows"])


register_posterior(BoostedTrees.kind, _build)
