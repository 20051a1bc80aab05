"""Make the reference posteriors: two samplers that must agree, and the evidence by annealed importance sampling.

What is stored comes from elliptical slices about a Gaussian near the posterior (:mod:`gpbench.bench.truth.elliptical`),
a hundred chains side by side from overdispersed starts, doubled until the worst row's effective draws and R-hat are as
wanted. Errors come from the spread between the chains, which no autocorrelation biases. Gibbs sampling
(:mod:`gpbench.schemes.gibbs`), which shares no line with that, says the same or the reference is refused.

f at test rows is never drawn: given f at the training rows its law is normal, and its moments and probabilities are
averages over that.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gpbench import __version__
from gpbench.bench.cell import CellSpec, Limits, SplitSpec
from gpbench.bench.division import divide
from gpbench.bench.sources import opened, sources
from gpbench.bench.truth.elliptical import Base, annealed_evidence, elliptical_move, laplace_base
from gpbench.bench.truth.reference import SEED, Reference, folder, write_reference
from gpbench.errors import NumericalError
from gpbench.model.likelihoods import likelihood
from gpbench.model.linalg import cholesky, trsm
from gpbench.schemes.gibbs import (
    Chain,
    Gibbs,
    autocorrelation_times,
    shrink_factors,
    shrink_factors_of,
    standard_errors,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from gpbench.bench.division import Division
    from gpbench.bench.truth.reference import Problem
    from gpbench.config import Config
    from gpbench.model.likelihoods import Likelihood
    from gpbench.model.rows import Array, Labels

__all__ = ["Effort", "division_of", "make_reference", "sample"]

RHAT = 1.01
EFFECTIVE = 4000.0
"""Effective draws below which a reference is refused, of every row and of both samplers."""
AGREEMENT = 5.0
"""Largest difference of the two samplers' means that is let pass, in standard errors of it, over all rows."""


@dataclass(frozen=True, kw_only=True)
class Effort:
    """How long to sample.

    Attributes
    ----------
    chains : int
        Side by side.
    pilot, burn_in : int
        Moves of each of the four pilots that shape the base, and before anything is kept.
    effective : float
        Draws that the worst row's mean is to be worth.
    most : int
        Moves kept of a chain at most.
    thinning : int
        Moves from one look at the test rows to the next.
    gibbs : int
        Effective draws of the worst row that Gibbs sampling is to reach.
    gibbs_most : int
        Sweeps of each of its four chains at most.
    gibbs_rows : int
        Training rows up to which there is Gibbs sampling, whose sweeps cost their cube under the logit.
    temperatures, moves, runs : int
        Of annealed importance sampling.
    """

    chains: int = 100
    pilot: int = 150
    burn_in: int = 300
    effective: float = 12_000.0
    most: int = 51_200
    thinning: int = 10
    gibbs: float = 4500.0
    gibbs_most: int = 400_000
    gibbs_rows: int = 300
    temperatures: int = 200
    moves: int = 2
    runs: int = 200


def division_of(problem: Problem, config: Config) -> tuple[Division, str, str]:
    """The rows of a problem, its data set's id and checksum.

    Raises
    ------
    DataError
        The data set cannot be had.
    """
    (source,) = sources([problem.dataset], config)
    dataset = opened(source)
    spec = CellSpec(
        dataset=dataset.id,
        checksum=dataset.checksum,
        method="",
        version=0,
        settings={},
        likelihood="",
        limits=Limits(),
        scaling="standard",
        split=SplitSpec(protocol=problem.split, index=0, count=1, seed=SEED),
        seed=SEED,
    )
    return divide(dataset, spec), dataset.id, dataset.checksum


def make_reference(
    problem: Problem, link: str, config: Config, *, effort: Effort, say: Callable[[str], None], seed: int = 0
) -> Path:
    """Sample a problem's posterior under a link and store it.

    Raises
    ------
    DataError
        The data set cannot be had.
    NumericalError
        It is not as precise as it must be, or the two samplers differ.
    """
    division, dataset, checksum = division_of(problem, config)
    X, X_test = (np.asarray(rows, dtype=np.float64) for rows in (division.X, division.X_test))
    kernel = problem.kernel(X.shape[1])
    found = sample(
        kernel.gram(X),
        division.y,
        likelihood(link),
        cross=kernel.cross(X, X_test),
        variance=kernel.diag(X_test),
        effort=effort,
        rng=np.random.default_rng([seed, 1]),
        say=say,
    )
    check = None
    if len(X) <= effort.gibbs_rows:
        check = _gibbs(problem, link, X, division.y, found, effort=effort, seed=seed, say=say)
    about = {
        "problem": problem.name,
        "link": link,
        "dataset": dataset,
        "checksum": checksum,
        "split": problem.split,
        "kernel": kernel.values(),
        "rows": len(X),
        "test_rows": len(X_test),
        "inputs": X.shape[1],
        "gpbench": __version__,
        "command": f"gpbench truth --make --problem {problem.name} --link {link}",
        **found.about,
        "gibbs": check,
    }
    path = folder() / f"{problem.name}-{link}.npz"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_reference(path, Reference(about, found.moments))
    return path


@dataclass(frozen=True, eq=False)
class Sampled:
    """Moments of a posterior, their errors, and how they came about.

    Attributes
    ----------
    about : dict
    moments : dict
        As in a :class:`~gpbench.bench.truth.reference.Reference`.
    mean_error : (n,)
        Standard errors of the training rows' means.
    """

    about: dict[str, Any]
    moments: dict[str, dict[str, Array]]
    mean_error: Array


def sample(
    K: Array,
    y: Labels,
    likelihood: Likelihood,
    *,
    cross: Array,
    variance: Array,
    effort: Effort,
    rng: np.random.Generator,
    say: Callable[[str], None] = lambda _: None,
) -> Sampled:
    """Moments and evidence of a posterior of one latent function.

    Parameters
    ----------
    K : (n, n)
        Prior covariance of the training rows.
    y : (n,)
    likelihood : Likelihood
        With a density that is log-concave in f.
    cross, variance : (n, t), (t,)
        Prior covariance of training with test rows, and prior variance of test rows.
    effort : Effort
    rng : numpy.random.Generator
    say : callable

    Raises
    ------
    NumericalError
        The chains are not as precise as they must be within ``effort.most`` moves.
    """
    L, jitter = cholesky(np.asfortranarray(K), what="K of the reference's rows")
    L = np.tril(L)
    columns = np.asarray(y)[:, None]

    def log_density(f: Array) -> Array:
        return likelihood.log_density(columns, f)

    base = laplace_base(L, lambda f: likelihood.derivatives(y, f))
    for _ in range(4):  # towards the posterior's mean, with the curvature that rows have on average
        base = _shaped(base, columns, likelihood, log_density, effort=effort, rng=rng)
    chains = _Chains(base, likelihood, log_density, y, L=L, cross=cross, variance=variance, effort=effort, rng=rng)
    moves = 200
    while True:
        chains.run(moves)
        precise = chains.precision()
        say(
            f"{chains.count} moves of {effort.chains} chains: "
            f"{precise['effective']:.0f} effective draws, R-hat {precise['rhat']:.4f}"
        )
        if precise["effective"] >= effort.effective and precise["rhat"] < RHAT:
            break
        if chains.count * 2 > effort.most:
            if precise["effective"] >= EFFECTIVE and precise["rhat"] < RHAT:
                break
            raise NumericalError(
                f"expected {EFFECTIVE:.0f} effective draws and R-hat below {RHAT} after {chains.count} moves of "
                f"{effort.chains} chains; got {precise['effective']:.0f} and {precise['rhat']:.4f}"
            )
        moves = chains.count
    betas = np.linspace(0.0, 1.0, effort.temperatures + 1)
    evidence = annealed_evidence(base, log_density, betas=betas, runs=effort.runs, moves=effort.moves, rng=rng)
    say(f"log evidence {evidence.value:.3f} ± {evidence.error:.3f}, log weights' sd {evidence.spread:.2f}")
    about = {
        "jitter": jitter,
        "sampler": "elliptical slices about a Gaussian",
        "chains": effort.chains,
        "moves": chains.count,
        "burn_in": effort.burn_in,
        **precise,
        "log_evidence": evidence.value,
        "log_evidence_error": evidence.error,
        "log_evidence_spread": evidence.spread,
        "temperatures": effort.temperatures,
        "runs": effort.runs,
    }
    moments, mean_error = chains.moments()
    return Sampled(about, moments, mean_error)


def _shaped(
    base: Base,
    columns: Array,
    likelihood: Likelihood,
    log_density: Callable[[Array], Array],
    *,
    effort: Effort,
    rng: np.random.Generator,
) -> Base:
    """A base with the mean of some draws, and the mean of the rows' curvatures for its precisions."""
    f = base.draw(effort.chains, rng=rng)
    r = base.remainder(f, log_density)
    mean, tau = np.zeros(len(f)), np.zeros(len(f))
    skipped = effort.pilot // 3
    for count in range(effort.pilot):
        f, r = elliptical_move(f, r, base, log_density, rng=rng)
        if count >= skipped:
            mean += f.mean(axis=1)
            tau -= np.asarray(likelihood.derivatives(columns, f)[1]).mean(axis=1)
    kept = effort.pilot - skipped
    mean, tau = mean / kept, np.maximum(tau / kept, 0.0)
    # N(m, ·) with these precisions has b = K⁻¹ m + τ m
    b = trsm(base.L, trsm(base.L, np.asfortranarray(mean[:, None])), trans=True)[:, 0] + tau * mean
    return Base(base.L, tau=tau, b=b)


class _Chains:
    """Chains side by side, and sums of what is wanted of each of their two halves."""

    def __init__(
        self,
        base: Base,
        likelihood: Likelihood,
        log_density: Callable[[Array], Array],
        y: Labels,
        *,
        L: Array,
        cross: Array,
        variance: Array,
        effort: Effort,
        rng: np.random.Generator,
    ) -> None:
        self.count = 0
        self._base, self._likelihood, self._log_density = base, likelihood, log_density
        self._effort, self._rng = effort, rng
        t = trsm(L, np.asfortranarray(cross))
        self._project = np.ascontiguousarray(trsm(L, t, trans=True).T)  # K_*ᵀ K⁻¹, (t, n)
        self._left = np.maximum(variance - np.einsum("ij,ij->j", t, t), 0.0)
        self._ones = np.ones((len(y), 1), dtype=np.int64)
        self._f = base.draw(effort.chains, rng=rng, spread=2.0)
        self._r = base.remainder(self._f, log_density)
        for _ in range(effort.burn_in):
            self._move()
        self._halves: list[dict[str, Array]] = []

    def run(self, moves: int) -> None:
        """Go on; what there is so far becomes the first half."""
        R, looks = self._effort.chains, 0
        total: dict[str, Any] = dict.fromkeys(("f", "ff", "g", "gg", "p", "q"), 0.0)
        for count in range(moves):
            self._move()
            f = self._f
            total["f"] = total["f"] + f
            total["ff"] = total["ff"] + f * f
            if count % self._effort.thinning == 0:
                looks += 1
                g = self._project @ f
                total["g"] = total["g"] + g
                total["gg"] = total["gg"] + g * g
                total["p"] = total["p"] + np.exp(self._likelihood.log_density(self._ones, f))
                spread = np.repeat(self._left, R)[:, None]
                predicted = self._likelihood.predict(g.reshape(-1, 1), spread).values[:, 1]
                total["q"] = total["q"] + predicted.reshape(g.shape)
        self.count += moves
        new = {name: np.asarray(value) for name, value in total.items()} | {
            "moves": np.array(moves),
            "looks": np.array(looks),
        }
        if len(self._halves) == 2:
            first, second = self._halves
            self._halves = [{name: first[name] + second[name] for name in first}]
        self._halves.append(new)

    def precision(self) -> dict[str, float]:
        """Effective draws and R-hat of the worst training row, and the largest errors."""
        _, _, error = self._of("f", "ff", "moves")
        sd = self._sd("f", "ff", "moves")
        effective = float(((sd / error) ** 2).min())
        halves = [(each["f"] / each["moves"], each["ff"] / each["moves"]) for each in self._halves]
        if len(halves) == 1:
            rhat = math.inf
        else:
            means = np.concatenate([m.T for m, _ in halves])
            within = np.concatenate([(s - m * m).T for m, s in halves])
            rhat = float(shrink_factors_of(means, np.maximum(within, 0.0), int(self._halves[1]["moves"])).max())
        _, _, of_p = self._of("p", "p", "looks")
        _, _, of_q = self._of("q", "q", "looks")
        return {
            "effective": effective,
            "rhat": rhat,
            "mean_error": float((error / sd).max()),
            "sd_error": float(self._sd_error().max()),
            "probability_error": float(max(of_p.max(), of_q.max())),
        }

    def moments(self) -> tuple[dict[str, dict[str, Array]], Array]:
        """Moments of both parts, and the errors of the training rows' means."""
        mean, _, error = self._of("f", "ff", "moves")
        train = {"mean": mean, "sd": self._sd("f", "ff", "moves"), "probability": self._of("p", "p", "looks")[0]}
        # the mean of f at test rows is a product of that at training rows, which every move tells of
        sd_test = np.sqrt(self._sd("g", "gg", "looks") ** 2 + self._left)
        test = {"mean": self._project @ mean, "sd": sd_test, "probability": self._of("q", "q", "looks")[0]}
        return {"train": train, "test": test}, error

    def _move(self) -> None:
        self._f, self._r = elliptical_move(self._f, self._r, self._base, self._log_density, rng=self._rng)

    def _total(self, name: str) -> Array:
        """The sum over both halves."""
        return np.asarray(sum(each[name] for each in self._halves))

    def _of(self, first: str, second: str, number: str) -> tuple[Array, Array, Array]:
        """Mean, mean of the second quantity, and the first's standard error from the spread of the chains."""
        count = self._total(number)
        each_mean, other = self._total(first) / count, self._total(second) / count
        error = each_mean.std(axis=1, ddof=1) / math.sqrt(self._effort.chains)
        return each_mean.mean(axis=1), other.mean(axis=1), np.asarray(error)

    def _sd(self, first: str, second: str, number: str) -> Array:
        mean, square, _ = self._of(first, second, number)
        return np.sqrt(np.maximum(square - mean * mean, 0.0))

    def _sd_error(self) -> Array:
        """Relative standard error of the training rows' standard deviations."""
        count = self._total("moves")
        f = self._total("f") / count
        centre = f.mean(axis=1, keepdims=True)
        chains = self._total("ff") / count - 2.0 * centre * f + centre * centre
        error = chains.std(axis=1, ddof=1) / math.sqrt(self._effort.chains)
        return np.asarray(0.5 * error / chains.mean(axis=1))


def _chain(problem: Problem, link: str, X: Array, y: Labels, *, seed: list[int]) -> Chain:
    """A chain of Gibbs sampling from a draw of the prior, which is wider than the posterior, past its burn-in."""
    scheme = Gibbs(
        kernel="se", lengthscale=problem.lengthscale, variance=problem.variance, noise=0.0, link=link, samples=1
    )
    rng = np.random.default_rng(seed)
    chain = Chain(scheme, X, y, likelihood=likelihood(link), rng=rng)
    chain.go_on_from(rng.standard_normal(len(X)))
    chain.draws(2000 if link == "probit" else 300)
    return chain


def _gibbs(
    problem: Problem,
    link: str,
    X: Array,
    y: Labels,
    found: Sampled,
    *,
    effort: Effort,
    seed: int,
    say: Callable[[str], None],
) -> dict[str, Any]:
    """Gibbs sampling of the same posterior: how precise it is, and how far its means are from ours.

    Raises
    ------
    NumericalError
        It is not precise enough, or says something else.
    """
    sweeps, thinning = 2000, 1
    draws = np.empty((4, 0, len(X)))
    chains = [_chain(problem, link, X, y, seed=[seed, 2, number]) for number in range(4)]
    while True:
        draws = np.concatenate([draws, np.stack([chain.draws(sweeps, thinning=thinning) for chain in chains])], axis=1)
        S = draws.shape[1]
        pooled = np.stack([autocorrelation_times(each) for each in draws]).mean(axis=0)
        sizes = 4 * S / pooled
        rhat = float(shrink_factors(draws).max())
        say(f"Gibbs: 4 x {S} draws at every sweep {thinning}: {sizes.min():.0f} effective, R-hat {rhat:.4f}")
        if sizes.min() >= effort.gibbs and rhat < RHAT:
            break
        done = S * thinning
        if done * 2 > effort.gibbs_most:
            raise NumericalError(
                f"expected {effort.gibbs:.0f} effective draws and R-hat below {RHAT} of Gibbs sampling after "
                f"4 x {done} sweeps; got {sizes.min():.0f} and {rhat:.4f}"
            )
        if S >= 8000:  # memory: every second draw is let go
            draws, thinning = draws[:, ::2], thinning * 2
        sweeps = done
    flat = draws.reshape(-1, len(X))
    error = np.sqrt(standard_errors(flat, pooled) ** 2 + found.mean_error**2)
    z = (flat.mean(axis=0) - found.moments["train"]["mean"]) / error
    ratio = flat.std(axis=0, ddof=1) / found.moments["train"]["sd"]
    say(f"Gibbs and slices: means differ by {np.abs(z).max():.2f} standard errors at most, {z.std():.2f} on average")
    if np.abs(z).max() > AGREEMENT:
        raise NumericalError(
            f"{problem.name}, {link}: expected two samplers' means within {AGREEMENT} standard errors; "
            f"got {np.abs(z).max():.2f}"
        )
    return {
        "draws": int(4 * S),
        "thinning": thinning,
        "effective": float(sizes.min()),
        "rhat": rhat,
        "largest_difference": float(np.abs(z).max()),
        "mean_square_difference": float((z * z).mean()),
        "sd_ratio_least": float(ratio.min()),
        "sd_ratio_most": float(ratio.max()),
    }
