"""What every fit must hold: reproducible, told step by step, ended at any of them, right where the answer is known."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gpbench.bench.check.trial import Data, Exempt, Failed
from gpbench.model.posterior import load_posterior
from gpbench.schemes.base import StopTraining

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpbench.bench.check.trial import Trial
    from gpbench.model.rows import Array
    from gpbench.schemes.base import Step

__all__ = ["BEHAVIOUR"]

SYMMETRY = 1e-6
"""Largest difference of predictions where labels are swapped or rows come in another order."""
CLOSE = 0.1
"""Largest difference from an answer that is known but for a weak prior and the approximation."""
GRADIENT = 1e-4
"""Largest difference of a gradient from central differences, relative to its largest entry."""


def same_bits(trial: Trial) -> str:
    """The same seed gives the same posterior."""
    first, again = (trial.bits(trial.fit(trial.short)) for _ in range(2))
    if first != again:
        raise Failed("expected the same bits from the same seed; got others")
    return f"after {first[0]} iterations"


def steps(trial: Trial) -> str:
    """on_step sees iterations 1, 2, 3 ..., and bounds that are finite."""
    told: list[Step] = []
    fit = trial.fit(trial.short, on_step=told.append)
    counted = [step.iteration for step in told]
    if counted != list(range(1, fit.iterations + 1)) or not told:
        raise Failed(f"expected iterations 1 to {fit.iterations}, as fit counts them; got {counted}")
    bounds = [step.bound for step in told if step.bound is not None] + ([] if fit.bound is None else [fit.bound])
    wrong = [bound for bound in bounds if not math.isfinite(bound)]
    if wrong:
        raise Failed(f"expected finite bounds; got {wrong}")
    return f"{len(told)} iterations, {len(bounds)} bounds"


def looking(trial: Trial) -> str:
    """A posterior that is made and asked at each step changes nothing."""
    alone = trial.bits(trial.fit(trial.short))
    watched = trial.bits(trial.fit(trial.short, on_step=lambda step: _check_finite(trial, step.posterior())))
    if alone != watched:
        raise Failed("expected the bits of training that nobody watches; got others")
    return "a posterior at each step"


def stopped(trial: Trial) -> str:
    """StopTraining gives the state that training has come to."""
    told: list[Step] = []
    trial.fit(trial.short, on_step=told.append)
    if not told:
        raise Failed("on_step was told of no iteration")
    ends = sorted({1, min(3, len(told)), len(told)})
    for end in ends:

        def stop(step: Step, end: int = end) -> None:
            if step.iteration >= end:
                raise StopTraining

        fit = trial.fit(trial.short, on_step=stop)
        if (fit.stopped_by, fit.iterations) != ("on_step", end):
            raise Failed(
                f"StopTraining at iteration {end}: expected a Fit stopped by on_step after {end}; "
                f"got {fit.stopped_by} after {fit.iterations}"
            )
        _check_finite(trial, fit.posterior)
    return f"at iterations {', '.join(map(str, ends))}"


def limit(trial: Trial) -> str:
    """A limit of iterations that cuts training never makes it converged."""
    if "max_iterations" not in trial.known:
        raise Exempt("no setting max_iterations")
    ended = []
    for most in (1, 2, 5):
        cut, further = (trial.fit({**trial.short, "max_iterations": number}) for number in (most, 4 * most))
        if cut.stopped_by == "on_step":
            raise Failed(f"max_iterations={most}: nobody stopped it, yet it says stopped by on_step")
        if cut.stopped_by == "converged" and further.iterations > cut.iterations:
            raise Failed(
                f"max_iterations={most}: says converged after {cut.iterations}, yet it takes {further.iterations} "
                f"iterations of {4 * most}"
            )
        ended.append(cut.stopped_by)
    return f"stopped by {', '.join(ended)} at limits 1, 2, 5"


def predict_and_score(trial: Trial) -> str:
    """Both say the same of a target."""
    posterior = trial.fit(trial.short).posterior
    values = trial.predicted(posterior)
    score = posterior.score(trial.X_test, trial.y_test)
    if not np.array_equal(score.values, values):
        raise Failed("expected score to give the values that predict gives; got others")
    if values.ndim == 2:
        _check_close("log densities", score.log_density, np.log(values[np.arange(len(values)), trial.y_test]), 1e-7)
        _check_close("sums of probabilities", values.sum(axis=1), np.ones(len(values)), 1e-7)
        return f"{len(values)} rows"
    counts = np.arange(400)
    densities = np.array(
        [
            np.exp(posterior.score(np.repeat(trial.X_test[[row]], len(counts), axis=0), counts).log_density)
            for row in range(len(values))
        ]
    )
    _check_close("sums of the counts' probabilities", densities.sum(axis=1), np.ones(len(values)), 1e-3)
    _check_close("means of counts", values, densities @ counts, 1e-2)
    return f"{len(values)} rows, counts up to {counts[-1]}"


def save_and_load(trial: Trial) -> str:
    """A posterior that was saved predicts the same bits."""
    posterior = trial.fit(trial.short).posterior
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "posterior.npz"
        posterior.save(path)
        again = trial.predicted(load_posterior(path))
    if not np.array_equal(trial.predicted(posterior), again):
        raise Failed("expected the predictions of the posterior that was saved; got others")
    return "the same bits"


def labels_swapped(trial: Trial) -> str:
    """Two classes that change their names change their probabilities."""
    if trial.task != "binary":
        raise Exempt(f"task {trial.task}")
    data, few = trial.data, _some(trial.data)
    swapped = Data(data.X, 1 - data.y), Data(few.X, 1 - few.y)
    p = trial.predicted(trial.fit(trial.settled, inducing=few).posterior)
    other = trial.predicted(trial.fit(trial.settled, data=swapped[0], inducing=swapped[1]).posterior)
    return _check_close("probabilities", other[:, ::-1], p, SYMMETRY)


def rows_permuted(trial: Trial) -> str:
    """The order of rows plays no part."""
    data, few = trial.data, _some(trial.data)
    order = np.random.default_rng(7).permutation(len(data.y))
    p = trial.predicted(trial.fit(trial.settled, inducing=few).posterior)
    other = trial.fit(trial.settled, data=Data(data.X[order], data.y[order]), inducing=few)
    return _check_close("predictions", trial.predicted(other.posterior), p, SYMMETRY)


def balanced_duplicates(trial: Trial) -> str:
    """Rows that are there once with each label say nothing."""
    if trial.task not in {"binary", "multiclass"}:
        raise Exempt(f"task {trial.task}")
    rows, C = trial.data.X[:12], trial.classes
    data = Data(np.repeat(rows, C, axis=0), np.tile(np.arange(C), len(rows)))
    posterior = trial.fit(trial.settled, data=data, inducing=_some(data)).posterior
    p = trial.predicted(posterior)
    return _check_close("probabilities", p, np.full(p.shape, 1 / C), CLOSE)


def shares(trial: Trial) -> str:
    """Many equal rows are predicted by their shares; counts, all the same, by their rate."""
    spots = np.array([[-1.5, 0.0], [0.0, 0.0], [1.5, 0.0]])
    of_class = {
        "binary": np.array([[3, 1], [2, 2], [1, 3]]) / 4,
        "multiclass": np.array([[4, 2, 1], [7 / 3, 7 / 3, 7 / 3], [1, 2, 4]]) / 7,
        "ordinal": np.tile([0.25, 0.5, 0.25], (3, 1)),
    }
    if trial.task == "count":
        labels, expected = [np.full(12, 5)] * 3, np.full(3, 5.0)
    else:
        wanted = np.round(24 * of_class[trial.task]).astype(int)
        labels = [np.repeat(np.arange(trial.classes), counts) for counts in wanted]
        expected = of_class[trial.task]
    # no two inputs are quite the same, so that as many inducing inputs as spots can always be had
    where = np.repeat(spots, [len(each) for each in labels], axis=0)
    where = where + 1e-3 * np.random.default_rng(2).normal(size=where.shape)
    data = Data(where, np.concatenate(labels))
    active = Data(where[[0, len(labels[0]), -1]], data.y[[0, len(labels[0]), -1]])
    posterior = trial.fit(trial.settled, data=data, inducing=active).posterior
    scale = 5.0 if trial.task == "count" else 1.0
    return _check_close("predictions", posterior.predict(spots).values / scale, expected / scale, CLOSE)


def gradient(trial: Trial) -> str:
    """The gradient that the scheme works out, by central differences."""
    scheme: Any = trial.method.build(trial.short)
    if not hasattr(scheme, "differentiable"):
        raise Exempt("not offered (a method differentiable)")
    objective, x = scheme.differentiable(
        trial.data.X,
        trial.data.y,
        inducing=trial.rule(trial.short),
        likelihood=scheme.likelihood(trial.task, trial.classes),
        classes=trial.classes,
        rng=np.random.default_rng(5),
    )
    _, exact = objective(x)
    step = 1e-5
    estimate = np.array(
        [(objective(x + step * e)[0] - objective(x - step * e)[0]) / (2 * step) for e in np.eye(len(x))]
    )
    scale = max(1.0, float(np.abs(exact).max(initial=0.0)))
    return _check_close("gradients", exact / scale, estimate / scale, GRADIENT)


BEHAVIOUR: dict[str, Callable[[Trial], str]] = {
    "same bits": same_bits,
    "steps": steps,
    "looking": looking,
    "stopped": stopped,
    "limit": limit,
    "predict and score": predict_and_score,
    "save and load": save_and_load,
    "labels swapped": labels_swapped,
    "rows permuted": rows_permuted,
    "balanced duplicates": balanced_duplicates,
    "shares": shares,
    "gradient": gradient,
}
"""The checks of one task by name: each says what it found, or raises Failed or Exempt."""


def _some(data: Data) -> Data:
    """Six rows to be inducing inputs, no two the same, whatever order the others come in."""
    _, first = np.unique(data.X, axis=0, return_index=True)
    rows = np.sort(first)[:6]
    return Data(data.X[rows], data.y[rows])


def _check_finite(trial: Trial, posterior: Any) -> None:
    values = trial.predicted(posterior)
    if not np.isfinite(values).all():
        raise Failed(f"expected finite predictions; got {int((~np.isfinite(values)).sum())} that are not")


def _check_close(what: str, got: Array, expected: Array, tolerance: float) -> str:
    apart = float(np.abs(got - expected).max(initial=0.0))
    if not apart <= tolerance:
        raise Failed(f"expected {what} within {tolerance:g}; got a difference of {apart:.2g}")
    return f"{what} within {apart:.1g}"
