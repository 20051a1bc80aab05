"""The steps of :mod:`gpbench.bench.derived.stored`: from a plan's cells, or from nothing but options, to named arrays.

Arrays of one cell begin with its key: ``KEY/mean``.
"""

from __future__ import annotations

import json
import math
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np
import numpy.typing as npt

from gpbench.bench.division import divide
from gpbench.bench.plan.cells import source_of
from gpbench.bench.sources import drawn, opened
from gpbench.bench.truth.measures import Distance, distance
from gpbench.bench.truth.reference import PARTS, find_reference
from gpbench.data.record import Preparation
from gpbench.data.splits import Protocol as SplitProtocol
from gpbench.errors import DataError, UsageError
from gpbench.model.inducing import InducingRule
from gpbench.model.kernels import make_kernel
from gpbench.model.likelihoods import Logit, Ordinal, Poisson
from gpbench.model.posterior import load_posterior
from gpbench.schemes.general.contraction import contraction_distances
from gpbench.schemes.scalable_ep.toy import exact_density, factor_values, settle

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from gpbench.bench.division import Division
    from gpbench.bench.plan.cells import PlanCells, PlanResult
    from gpbench.bench.plan.plan import Plan
    from gpbench.config import Config
    from gpbench.data.dataset import Dataset
    from gpbench.model.likelihoods import Prediction
    from gpbench.model.rows import Array, Rows

    Arrays = dict[str, npt.NDArray[Any]]

__all__ = ["agreement", "contraction", "factors", "hyperparameters", "logged", "panels", "truth"]

#: Points along each axis of a panel's grid.
_STEPS = 160
#: Training rows that are drawn at most.
_MOST = 1500


class LatentPredictor(Protocol):
    """A posterior of latent functions."""

    def latent(self, X: Rows) -> tuple[Array, Array]:
        """Mean and variance of each latent function, (n, F) each."""

    def predict(self, X: Rows) -> Prediction:
        """Predictive distribution of each row."""


def panels(found: PlanCells, options: Mapping[str, Any], config: Config) -> Arrays:  # noqa: ARG001  # as all steps
    """Two-dimensional data, inducing inputs, and by how much each class is ahead over a grid.

    Returns
    -------
    dict
        ``X`` (n, 2), ``y`` (n,): training rows of the first finished cell, not all of them if they are many;
        ``classes`` (C,): the labels that there are; ``box`` (2, 2): lowest and highest corner of the panels; ``grid``
        (2, g): points along each axis. For the first finished split of each variant ``KEY/margins`` (B, g, g):
        probability of a class less the largest of the others', for every class, of two for one; and ``KEY/inducing/I``
        (M, 2): each set of inducing inputs, none of a full scheme, with ``KEY/lead/I`` and ``KEY/lead_start/I`` (M,):
        by how much the likeliest class is ahead at them, and at those that training began with.

    Raises
    ------
    UsageError
        The data are not two-dimensional, or the cells of two variants saw other rows.
    DataError
        The data set, or a posterior, cannot be had.
    """
    chosen: dict[tuple[int, int], PlanResult] = {}
    for cell in found.results:
        if cell.finished:
            chosen.setdefault(cell.shown.position, cell)
    first = next(iter(chosen.values()))
    for each in chosen.values():
        if _rows(each) != _rows(first):
            raise UsageError(
                f"{found.plan.path}: render = 'panels' shows one split of one data set, scaled one way; "
                f"{_rows_words(first)} and {_rows_words(each)} are not the same rows"
            )
    division = _division(found.plan, first, config)
    X = np.asarray(division.X)
    if X.shape[1] != 2:
        raise UsageError(f"panels show data of two dimensions; {first.shown.dataset} has {X.shape[1]}")
    low, high = X.min(axis=0), X.max(axis=0)
    room = 0.06 * (high - low)
    box = np.stack([low - room, high + room])
    axes = np.stack([np.linspace(box[0][side], box[1][side], _STEPS) for side in (0, 1)])
    grid = np.stack(np.meshgrid(*axes), axis=-1).reshape(-1, 2)
    arrays: Arrays = {
        "X": X[:_MOST],
        "y": division.y[:_MOST],
        "classes": np.unique(division.y),
        "box": box,
        "grid": axes,
    }
    for each in chosen.values():
        posterior = _posterior(each)
        arrays[f"{each.key}/margins"] = _margins(posterior.predict(grid).values.reshape(_STEPS, _STEPS, -1))
        for number, Z in enumerate(_inducing(posterior, each, len(X))):
            arrays[f"{each.key}/inducing/{number}"] = Z
            arrays[f"{each.key}/lead/{number}"] = _lead(posterior.predict(Z).values)
            start = InducingRule.of(each.settings, seed=each.split.inducing_seed()).for_latent(number).choose(X)
            arrays[f"{each.key}/lead_start/{number}"] = _lead(posterior.predict(start).values)
    return arrays


def _rows(cell: PlanResult) -> tuple[object, ...]:
    """Which rows a cell trained on, as its scheme saw them."""
    return cell.dataset, cell.checksum, cell.split, cell.scaling, cell.limits.train_rows


def _rows_words(cell: PlanResult) -> str:
    """The same for a reader."""
    split = cell.split
    return (
        f"{cell.shown.method} on {cell.shown.dataset} (split {split.index} of {split.protocol}, scaled {cell.scaling})"
    )


def _lead(p: Array) -> Array:
    """Probability of the likeliest class less that of the next (n,), from probabilities (n, C)."""
    ordered = np.sort(p, axis=1)
    return ordered[:, -1] - ordered[:, -2]


def _margins(p: Array) -> Array:
    """By how much each class leads all others (B, g, g), from probabilities (g, g, C); of two classes the first."""
    labels = range(p.shape[2] - (p.shape[2] == 2))
    return np.stack([p[:, :, label] - np.delete(p, label, axis=2).max(axis=2) for label in labels])


def _inducing(posterior: object, cell: PlanResult, n: int) -> list[Array]:
    """The inducing inputs, once where the latent functions share them; none of a full scheme."""
    found: list[Array] = []
    for latent in getattr(posterior, "latents", ()):
        Z = np.asarray(latent.Z)
        if len(Z) < n and not any(Z.shape == other.shape and np.array_equal(Z, other) for other in found):
            found.append(Z)
    return [] if cell.settings.get("inducing") == "all" else found


def agreement(found: PlanCells, options: Mapping[str, Any], config: Config) -> Arrays:
    """Predictions of the test rows of one method's cells, and of all others' on the same splits.

    Parameters
    ----------
    found : PlanCells
    options : mapping
        ``against``: the table of [methods].
    config : Config

    Returns
    -------
    dict
        For each cell ``KEY/mean``, ``KEY/variance`` (n_test F,) of the latent functions and ``KEY/probability``
        (n_test,) of the last class, or the expected count.

    Raises
    ------
    DataError
        The data set, or a posterior, cannot be had, or a model has no latent functions.
    """
    finished = [cell for cell in found.results if cell.finished]
    wanted = {(cell.dataset, cell.unit) for cell in finished if cell.shown.name == options["against"]}
    arrays: Arrays = {}
    for cell in finished:
        if (cell.dataset, cell.unit) in wanted and f"{cell.key}/mean" not in arrays:
            posterior, X = _posterior(cell), _division(found.plan, cell, config).X_test
            mean, variance = posterior.latent(X)
            values = posterior.predict(X).values
            arrays[f"{cell.key}/mean"] = mean.ravel()
            arrays[f"{cell.key}/variance"] = variance.ravel()
            arrays[f"{cell.key}/probability"] = values[:, -1] if values.ndim == 2 else values
    return arrays


def hyperparameters(found: PlanCells, options: Mapping[str, Any], config: Config) -> Arrays:  # noqa: ARG001  # as all steps
    """The kernels that the finished cells ended with, a row for each hyper-parameter; none of models without kernels.

    Returns
    -------
    dict
        ``cell`` (k,): key; ``latent`` (k,): number of the latent function; ``name`` (k,); ``value`` (k,).

    Raises
    ------
    DataError
        A posterior cannot be read.
    """
    paths = {cell.key: cell.shown.arrays for cell in found.results if cell.finished}
    rows = [
        (key, number, _of_input(name, path), float(value))
        for key, path in paths.items()
        for number, latent in enumerate(getattr(load_posterior(path), "latents", ()))
        for name, value in latent.kernel.values().items()
    ]
    return {
        "cell": np.array([row[0] for row in rows], dtype=np.str_),
        "latent": np.array([row[1] for row in rows], dtype=np.int64),
        "name": np.array([row[2] for row in rows], dtype=np.str_),
        "value": np.array([row[3] for row in rows], dtype=np.float64),
    }


def _of_input(name: str, path: Path) -> str:
    """A hyper-parameter with its input's name in place of its number: ``lengthscales of Distance``."""
    number = re.search(r"\[(\d+)\]", name)
    if number is None:
        return name
    inputs = _inputs(path)
    place = int(number[1])
    return name if place >= len(inputs) else f"{name[: number.start()]} of {inputs[place]}"


@lru_cache(maxsize=16)
def _inputs(path: Path) -> tuple[str, ...]:
    """The columns that a cell's kernel sees, by name; none where its file does not say."""
    with path.open("rb") as stream, np.load(stream, allow_pickle=False) as arrays:
        if "preparation" not in arrays:
            return ()
        preparation = Preparation.from_json(json.loads(str(arrays["preparation"])))
    if preparation.scaling is None or preparation.scaling.kept is None:
        return preparation.names
    return tuple(preparation.names[place] for place in preparation.scaling.kept)


def logged(found: PlanCells, options: Mapping[str, Any], config: Config) -> Arrays:  # noqa: ARG001  # as all steps
    """The test NLL and error of each finished cell as the code of wenzel2019's authors logs them.

    That is of X-GPC and SVGPC. For X-GPC its loop over the rows of a fold asks, in the branch of the negative rows, for
    the class of the row whose number in the fold is the fold's own number. In folds where that row is positive,
    negative rows so add nothing to the mean. Its k folds have n // k rows each, and its logarithm of a probability of
    nought is that of the machine's epsilon. SVGPC's NLL is the mean over all rows.

    The class that it predicts is the sign of the probability less one half, and nought where these are equal in double
    precision: such a row is half an error.

    Returns
    -------
    dict
        For each cell ``KEY/nll`` and ``KEY/error`` (): the numbers; ``KEY/nll/same`` and ``KEY/error/same`` (): whether
        all rows count in it, whole.

    Raises
    ------
    UsageError
        A cell is of another method, or has more classes, or other test rows than a whole block in file order, or fewer
        than there are folds.
    DataError
        The data set cannot be had, or is not the one that the cells were run on.
    StoreError
        The predictions cannot be read.
    """
    arrays: Arrays = {}
    if others := sorted({cell.method for cell in found.results} - {"x-gpc", "svgpc"}):
        raise UsageError(f"{found.plan.path}: render = 'logged' knows how x-gpc and svgpc are logged; got {others[0]}")
    for cell in (each for each in found.results if each.finished):
        dataset = _dataset(found.plan, cell, config)
        own = found.store.arrays(cell.key, names=("test_probabilities", "y_test"), digest=cell.arrays_sha256)
        p, y = own.get("test_probabilities", np.empty(0)), own["y_test"]
        protocol, fold = SplitProtocol.parse(cell.split.protocol), cell.split.index
        contiguous = protocol.kind == "contiguous"
        rows = dataset.n // protocol.parts if contiguous else 0  # of their folds
        if not contiguous or rows < protocol.parts or p.shape != (dataset.n - protocol.training_rows(dataset, fold), 2):
            raise UsageError(
                f"{found.plan.path}: render = 'logged' needs two classes and all test rows of contiguous folds, as "
                f"many as folds at least; {cell.shown.method} on {cell.shown.dataset} has {cell.split.protocol}, "
                f"probabilities {p.shape}"
            )
        whole = bool(cell.method != "x-gpc" or dataset.y[rows * fold + fold] == 0 or (y == 1).all())
        of_class = p[np.arange(len(y)), y]
        loss = -np.log(np.where(of_class <= 0.0, np.finfo(np.float64).eps, of_class))
        side = np.sign(p[:, 1] - 0.5)
        arrays |= {
            f"{cell.key}/nll": np.array(np.mean(loss if whole else np.where(y == 1, loss, 0.0))),
            f"{cell.key}/nll/same": np.array(whole),
            f"{cell.key}/error": np.array(np.mean((1.0 - (2 * y - 1) * side) / 2.0)),
            f"{cell.key}/error/same": np.array(bool((np.abs(side) == 1.0).all())),
        }
    return arrays


def contraction(found: PlanCells, options: Mapping[str, Any], config: Config) -> Arrays:  # noqa: ARG001  # it has no cells
    """How far apart random covariances are before and after sheth2015's operator, on random inputs of the unit cube.

    Parameters
    ----------
    found : PlanCells
    options : mapping
        ``sizes`` of the active set, random ``rows`` and their ``inputs``, ``repeats``, ``kernels``, ``slopes`` and
        ``edges`` of the ordinal likelihood, every slope with every set of edges, ``seed``.
    config : Config

    Returns
    -------
    dict
        ``kernels`` (K,), ``likelihoods`` (L,), ``sizes`` (S,), ``rows`` (); ``before`` and ``after`` (K, L, S, R).

    Raises
    ------
    UsageError
        The options are out of range.
    """
    d = int(options["inputs"])
    kernels = list(dict.fromkeys(str(name) for name in options["kernels"]))
    sizes = list(dict.fromkeys(int(size) for size in options["sizes"]))
    likelihoods: dict[str, Poisson | Logit | Ordinal] = {"count (Poisson)": Poisson(), "binary (logit)": Logit(20)}
    for edges in options["edges"]:
        words = ", ".join(f"{edge:g}" for edge in edges)
        for slope in map(float, options["slopes"]):
            try:
                likelihoods[f"ordinal ({words}), slope {slope:g}"] = Ordinal(edges, slope=slope)
            except UsageError as error:
                raise UsageError(f"{found.plan.path}: [figure]: {error}") from None
    before, after = [], []
    for name in kernels:
        kernel = make_kernel(name, d, variance=1.0, lengthscale=math.sqrt(d) / 3.0, noise=0.0)
        try:
            distances = contraction_distances(
                kernel,
                likelihoods,
                sizes=sizes,
                rows=int(options["rows"]),
                inputs=d,
                repeats=int(options["repeats"]),
                seed=options["seed"],
            )
        except UsageError as error:
            raise UsageError(f"{found.plan.path}: [figure]: {error}") from None
        before.append([[distances[each, size].before for size in sizes] for each in likelihoods])
        after.append([[distances[each, size].after for size in sizes] for each in likelihoods])
    return {
        "kernels": np.array(kernels),
        "likelihoods": np.array(list(likelihoods)),
        "sizes": np.array(sizes),
        "rows": np.array(options["rows"]),
        "before": np.array(before),
        "after": np.array(after),
    }


def factors(found: PlanCells, options: Mapping[str, Any], config: Config) -> Arrays:  # noqa: ARG001  # it has no cells
    """EP and SEP on one unknown: factors, sites and posteriors over a grid of the unknown (villacampa2017).

    Parameters
    ----------
    found : PlanCells
    options : mapping
        ``prior_variance``, ``centres`` and ``widths`` of the n factors.
    config : Config

    Returns
    -------
    dict
        ``theta`` (t,), ``factors`` (n, t), ``exact`` (t,): the posterior's density; ``names`` (2,): EP and SEP; their
        ``sites`` (2, n, t), scaled to their largest values, whether these are all the same ``tied`` (2,), ``density``
        (2, t); ``moments`` (3, 2): mean and variance of the exact posterior and of the two.

    Raises
    ------
    UsageError
        The options make no factors.
    """
    prior = options["prior_variance"]
    try:
        b, w = np.asarray(options["centres"]), np.asarray(options["widths"])
        settled = {name: settle(b, w, prior_variance=prior, tied=name == "SEP") for name in ("EP", "SEP")}
    except (UsageError, TypeError, ValueError) as error:
        raise UsageError(f"{found.plan.path}: [figure]: {error}") from None
    reach = 3.2 * float(np.sqrt(prior))
    theta = np.linspace(-reach, reach, 1601)
    exact = exact_density(theta, b, w, prior_variance=prior)
    step = float(theta[1] - theta[0])
    mean = float((theta * exact).sum() * step)
    moments = [(mean, float(((theta - mean) ** 2 * exact).sum() * step))]
    sites, densities = [], []
    for each in settled.values():
        logs = [-0.5 * tau * theta**2 + nu * theta for tau, nu in zip(each.tau, each.nu, strict=True)]
        sites.append([np.exp(log - log.max()) for log in logs])
        densities.append(np.exp(-0.5 * (theta - each.mean) ** 2 / each.variance) / np.sqrt(2.0 * np.pi * each.variance))
        moments.append((each.mean, each.variance))
    return {
        "theta": theta,
        "factors": np.array([factor_values(theta, float(c), float(v)) for c, v in zip(b, w, strict=True)]),
        "exact": exact,
        "names": np.array(list(settled)),
        "sites": np.array(sites),
        "tied": np.array([len(b) > 1 and not np.ptp(each.tau) for each in settled.values()]),
        "density": np.array(densities),
        "moments": np.array(moments),
    }


def truth(found: PlanCells, options: Mapping[str, Any], config: Config) -> Arrays:  # noqa: ARG001  # as all steps
    """How far the finished cells' posteriors are from the reference posteriors of their data, split and kernel.

    Returns
    -------
    dict
        ``cell`` (k,): key; ``problem``, ``link`` (k,); ``M`` (k,): inducing inputs; ``parts`` (2,): training and test
        rows; ``mean``, ``sd``, ``kl``, ``probability`` (k, 2): see :class:`gpbench.bench.truth.measures.Distance`;
        ``gap`` (k,): log evidence less the cell's bound or evidence (nats), NaN where it has none; ``evidence``,
        ``evidence_error``, ``mean_error``, ``probability_error`` (k,): the reference's own, the last two of its worst
        row.

    Raises
    ------
    DataError
        The data set, a posterior or a reference cannot be had.
    UsageError
        A cell's kernel, split or likelihood has no reference posterior.
    """
    rows: list[dict[str, Any]] = []
    for cell in found.results:
        if not cell.finished:
            continue
        posterior, division = _posterior(cell), _division(found.plan, cell, config)
        latents: Any = getattr(posterior, "latents", ())
        link = _likelihood_name(posterior)
        kernel = latents[0].kernel.values() if len(latents) == 1 else {}
        dataset = found.plan.datasets[cell.shown.position[0]]
        reference = find_reference(dataset=dataset, split=cell.split.protocol, link=link, kernel=kernel)
        if reference is None or cell.split.index != 0 or cell.split.seed != 0:
            raise UsageError(
                f"{cell.shown.method} on {dataset}, {cell.split.protocol}, likelihood {link}, kernel {kernel}: "
                "there is no reference posterior of that; is the kernel fixed, and without noise?"
            )
        about = reference.about
        if about["checksum"] != cell.checksum:
            raise DataError(
                f"the reference posterior of {about['problem']} is of other rows than {dataset} has here: "
                f"expected checksum {about['checksum']}, got {cell.checksum}"
            )
        if (len(division.y), len(division.y_test)) != (about["rows"], about["test_rows"]):
            raise UsageError(
                f"the reference posterior of {about['problem']} has {about['rows']} training and {about['test_rows']} "
                f"test rows; {cell.shown.method} has {len(division.y)} and {len(division.y_test)}"
            )
        apart = []
        for part, X in zip(PARTS, (division.X, division.X_test), strict=True):
            mean, variance = posterior.latent(X)
            probability = posterior.predict(X).values[:, 1]
            apart.append(distance(reference.moments[part], mean[:, 0], np.sqrt(variance[:, 0]), probability))
        bound = cell.metrics.get("bound")
        rows.append(
            {
                "cell": cell.key,
                "problem": about["problem"],
                "link": link,
                "M": len(latents[0].Z),
                **{name: [getattr(each, name) for each in apart] for name in Distance._fields},
                "gap": math.nan if bound is None else reference.log_evidence - bound,
                "evidence": reference.log_evidence,
                "evidence_error": about["log_evidence_error"],
                "mean_error": about["mean_error"],
                "probability_error": about["probability_error"],
            }
        )
    arrays = {name: np.array([row[name] for row in rows]) for name in rows[0]} if rows else {}
    return {"parts": np.array(PARTS), **arrays}


def _division(plan: Plan, cell: PlanResult, config: Config) -> Division:
    """The scaled rows of a cell's split, from the data set itself.

    Raises
    ------
    DataError
        As :func:`_dataset`.
    """
    return divide(_dataset(plan, cell, config), cell)


def _dataset(plan: Plan, cell: PlanResult, config: Config) -> Dataset:
    """The data set that a cell was run on.

    Raises
    ------
    DataError
        The data set cannot be had here, or it is not the one that the cell was run on.
    """
    name = plan.datasets[cell.shown.position[0]]
    dataset = opened(drawn(source_of(plan, name, config), cell.split.protocol))
    if dataset.checksum != cell.checksum:
        raise DataError(
            f"data set {name} is not the one that the cell was run on: "
            f"expected checksum {cell.checksum}, got {dataset.checksum}"
        )
    return dataset


def _likelihood_name(posterior: object) -> str:
    return str(getattr(getattr(posterior, "likelihood", None), "name", ""))


def _posterior(cell: PlanResult) -> LatentPredictor:
    """The posterior that a finished cell left.

    Raises
    ------
    DataError
        It cannot be read, or has no latent functions (logistic regression has none).
    """
    path = cell.shown.arrays
    found = load_posterior(path)
    if not hasattr(found, "latent"):
        raise DataError(f"{path}, of {cell.method}, holds a model without latent functions")
    return cast("LatentPredictor", found)
