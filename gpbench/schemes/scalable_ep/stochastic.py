"""Scalable EP one batch at a time: stored sites (ep-mgpc on mini-batches), and tied ones (sep-mgpc).

========  ===================================================================================  ===========
symbol    meaning                                                                              shape
========  ===================================================================================  ===========
n, b      rows in all, and rows of a batch
ν         K_mm⁻¹ k(Z, x) under the present kernel; whitened t = Lᵀν                              (M,)
w         ν as it was at the site's last update; whitened t_w = Lᵀw; zero before the first       (M,)
x         stored sites of all rows: scalars c₁, c₂ of each role                                (2R, n, F)
G, e      natural parameters of all sites together, in the whitened v: stored, Σ π t_w t_wᵀ and  (M, M), (M,)
          Σ b t_w over all rows
n_c       factors that touch latent function c in all rows; n_cb in the b rows
q⁻(v)     tied: cavity of any of these factors, the prior and (n_c - 1) / n_c of the sites
π, b      new sites of the rows, summed for each row and latent function                       (b, F)
ψ, ε      n_cb / n_c, the share of the tied sites that is replaced, and damping
p         hyper-parameters and inducing inputs of all latent functions                         (k,)
========  ===================================================================================  ===========

A batch updates its sites and gives the gradient as it was before, villacampa2017's eq. (12); then p takes a step, and
the sites, which stay what they are as functions of u, are seen from the new kernel. On mini-batches the steps are
Adam's, with ε = 1; where all rows are one batch (stochastic EP) they have the adaptive rates of
:mod:`gpbench.schemes.scalable_ep.batch`, with its damping. A step that leads to something that cannot be factorised is
halved, and so is the rate.

Stored: between its visits a site is the Gaussian that it was, whatever becomes of the kernel: its vector w is stored,
and n F M numbers are what the method costs (villacampa2017, O(N M C)). They are kept as float64 or float32. What is
added to G is made from what is stored, so that a later subtraction takes away just that; rounding is cleared by making
G and e anew from the stored sites now and then.

Tied (villacampa2017, section 2.3.1; Li, Hernández-Lobato and Turner 2015): the sites of a latent function are one
Gaussian, whose memory does not grow with the rows. Per batch G ← (1 - εψ) G + ε Σ π t tᵀ, and

    log Z = Σ_c log Z(q) + n/b Σ [log Φ(β)] + n/b Σ_c n_cb [log Z(q⁻) - log Z(q)].

The gradient is eq. (10) with q⁻ in the terms of the rows: not the derivative of log Z at converged sites, since SEP
averages natural parameters and log Z is stationary under averaged moments, but that of log Z with sites and cavities
held as functions of u.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from gpbench.errors import NumericalError
from gpbench.model.basis import BLOCK_ROWS, Moments, row_blocks
from gpbench.model.linalg import trmm, trsm
from gpbench.optimize.steps import Adam
from gpbench.schemes.scalable_ep.batch import EvidenceRule, MGPCTraining, SignRates
from gpbench.schemes.scalable_ep.evidence import CarriedSites, SiteGradient, block_size, no_limit, projected
from gpbench.schemes.scalable_ep.factors import Moved
from gpbench.schemes.settings import held_out_batches, persist

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from gpbench.model.gaussian import GaussianQ
    from gpbench.model.kernels import Kernel
    from gpbench.model.posterior import Latent
    from gpbench.model.rows import Array, Rows
    from gpbench.optimize.training import Index, Minibatches, StoppedBy
    from gpbench.schemes.scalable_ep.batch import Problem
    from gpbench.schemes.scalable_ep.evidence import Gradient
    from gpbench.schemes.scalable_ep.factors import Factors, Slopes
    from gpbench.schemes.scalable_ep.mgpc import MGPCScheme

__all__ = ["SiteUpdate", "StoredEP", "StoredTraining", "TiedEP", "TiedTraining", "stored_type"]

REFRESH = 5
"""Epochs after which the sums over all stored sites are made anew, which costs an eighth of an epoch."""
MEGABYTE = 1e6


class SiteUpdate(NamedTuple):
    """What a batch says of the state before its update.

    Attributes
    ----------
    gradient : list of (dtheta (P,), dZ (M, d)), or empty
        Of log Z, for each latent function, estimated from the batch.
    log_z : float or None
        Evidence (nats), estimated from the batch; stored sites do without.
    residual : (F M,) or None
        Change of all e that the undamped update would have made.
    """

    gradient: Gradient
    log_z: float | None = None
    residual: Array | None = None


class StoredEP:
    """Sites of all rows, and the vectors that they stand on.

    Parameters
    ----------
    kernels, inducing : sequences
        Kernel and Z (M, d) of each latent function; their numbers of inducing inputs may differ.
    n : int
        Rows.
    roles : int
        R, sites of a factor.
    dtype : type
        float64 or float32, of the stored vectors.
    jitters : sequence of float, optional
        Absolute jitters at first; by default the ladder.

    Attributes
    ----------
    sites : CarriedSites
    x : (2R, n, F)
    w : list of (n, M)
        Of each latent function.
    """

    def __init__(
        self,
        kernels: Sequence[Kernel],
        inducing: Sequence[Array],
        *,
        n: int,
        roles: int,
        dtype: type = np.float64,
        jitters: Sequence[float] | None = None,
    ) -> None:
        self.sites = CarriedSites(kernels, inducing, jitters=jitters)
        self.x = np.zeros((2 * roles, n, len(kernels)))
        self.w: list[npt.NDArray[np.floating]] = [np.zeros((n, len(Z)), dtype=dtype) for Z in inducing]

    def update(
        self,
        rows: Index,
        X: Array,
        factors: Factors,
        *,
        scale: float = 1.0,
        damping: float = 1.0,
        gradient: bool = True,
    ) -> SiteUpdate:
        """Update the sites of some rows.

        Parameters
        ----------
        rows : (b,)
            Their numbers, distinct.
        X : (b, d)
        factors : Factors
            Of these rows.
        scale : float
            n / b.
        damping : float
            ε.
        gradient : bool
            Whether to work out the gradient.

        Raises
        ------
        NumericalError
            Something is not finite, or a cavity is improper by more than rounding.
        """
        sites, F = self.sites, factors.F
        x = self.x[:, rows]
        qs = [sites.q(c)[0] for c in range(F)]
        s, h, g, var, cross, mean = (np.empty((len(X), F)) for _ in range(6))
        seen = []
        for c, (basis, q) in enumerate(zip(sites.bases, qs, strict=True)):
            T, s[:, c] = basis.whiten(X)
            T_w = self._whitened(c, self.w[c][rows])
            TS, h[:, c], g[:, c] = projected(q, T)
            T_wS, var[:, c], mean[:, c] = projected(q, T_w)
            cross[:, c] = np.einsum("ij,ij->i", TS, T_w)
            seen.append(_Seen(T, TS, T_w, T_wS))
        at = factors.tilt(x, s=s, h=h, g=g, moved=Moved(var, cross, mean))
        target = at.target
        if not np.isfinite(target).all():
            raise NumericalError("scalable EP must stay finite; got sites that are not")
        found: Gradient = []
        if gradient:
            slopes = at.slopes()
            found = [self._gradient(c, X, slopes, q=q, seen=seen[c]).total(q, scale=scale) for c, q in enumerate(qs)]
        x_new = x + damping * (target - x)
        self._replace(rows, seen, old=factors.totals(x), new=factors.totals(x_new))
        self.x[:, rows] = x_new
        return SiteUpdate(found)

    def refresh(self, factors: Factors, *, check: Callable[[], None] = no_limit) -> None:
        """Make G and e anew from the stored sites of all rows, whose factors are given; O(F n M²).

        ``check`` is called with each block of rows; what it raises ends the work, with what has been made in place.
        """
        n = self.x.shape[1]
        for c, basis in enumerate(self.sites.bases):
            sums = Moments(len(basis.Z))
            for rows in row_blocks(n, BLOCK_ROWS):
                check()
                pi, b = factors.part(rows).totals(self.x[:, rows])
                sums.add(self._whitened(c, self.w[c][rows]), weights=pi[:, c], targets=b[:, c])
            self.sites.change(c, sums, keep=0.0)

    def _whitened(self, c: int, w: npt.NDArray[np.floating]) -> Array:
        """t_w (b, M) of stored vectors."""
        return trmm(self.sites.bases[c].L, np.array(w, dtype=np.float64, order="F"), side="right", overwrite=True)

    def _gradient(self, c: int, X: Array, slopes: Slopes, *, q: GaussianQ, seen: _Seen) -> SiteGradient:
        assert slopes.chi is not None, "the factors know that sites stand on other vectors"
        total = SiteGradient(self.sites.bases[c], q)
        lam, xi, zeta = (values[:, c] for values in slopes[:3])
        moved = np.multiply(seen.T_wS, slopes.chi[:, c, None], out=seen.T_wS)
        total.add(X, seen.T, seen.TS, lam=lam, xi=xi, zeta=zeta, moved=moved)
        return total

    def _replace(self, rows: Index, seen: list[_Seen], *, old: tuple[Array, Array], new: tuple[Array, Array]) -> None:
        """Take the rows' old sites, by totals, out of G and e and put the new ones in, which stand on ν."""
        for c, (T, _, T_w, _) in enumerate(seen):
            M = T.shape[1]
            gone, come = Moments(M), Moments(M)
            gone.add(T_w, weights=old[0][:, c], targets=old[1][:, c])
            w = self.w[c]
            w[rows] = trsm(self.sites.bases[c].L, T, side="right")
            T_new = T if w.dtype == np.float64 else self._whitened(c, w[rows])
            come.add(T_new, weights=new[0][:, c], targets=new[1][:, c])
            come.G -= gone.G
            come.r -= gone.r
            self.sites.change(c, come)


class _Seen(NamedTuple):
    """One latent function at a batch: T and T S at ν, and at the vectors w that the sites stand on."""

    T: Array
    TS: Array
    T_w: Array
    T_wS: Array


class TiedEP:
    """Tied sites of all latent functions.

    Parameters
    ----------
    kernels, inducing : sequences
        Kernel and Z (M, d) of each latent function.
    touching : (F,)
        n_c of each.
    jitters : sequence of float, optional
        Absolute jitters at first; by default the ladder.
    block_rows : int, optional
        Rows in a block; by default all of a batch where their features take little memory.
    check : callable
        Called with each block; what it raises ends an update, which then has changed nothing.

    Attributes
    ----------
    sites : CarriedSites
    """

    def __init__(
        self,
        kernels: Sequence[Kernel],
        inducing: Sequence[Array],
        *,
        touching: Array,
        jitters: Sequence[float] | None = None,
        block_rows: int | None = None,
        check: Callable[[], None] = no_limit,
    ) -> None:
        self.sites = CarriedSites(kernels, inducing, jitters=jitters)
        self._touching, self._block_rows, self._check = touching, block_rows, check

    def update(
        self, X: Rows, factors: Factors, *, scale: float = 1.0, damping: float = 1.0, gradient: bool = True
    ) -> SiteUpdate:
        """Update the sites from the rows X (b, d).

        Parameters
        ----------
        X : (b, d)
        factors : Factors
            Of these rows.
        scale : float
            n / b.
        damping : float
            ε; 0 leaves the sites alone.
        gradient : bool
            Whether to work out the gradient.

        Raises
        ------
        NumericalError
            Something is not finite.
        """
        sites, F = self.sites, factors.F
        qs = [sites.q(c) for c in range(F)]
        cavities = [sites.q(c, share=1.0 - 1.0 / self._touching[c]) for c in range(F)]
        here = factors.touching()
        log_z = sum(of_q for _, of_q in qs)
        log_z += scale * sum(
            k * (of_cavity - of_q) for k, (_, of_q), (_, of_cavity) in zip(here, qs, cavities, strict=True)
        )
        gradients = [SiteGradient(basis, q) for basis, (q, _) in zip(sites.bases, cavities, strict=True)]
        sums = [Moments(len(basis.Z)) for basis in sites.bases]
        b = len(X)
        size = block_size(self._block_rows, rows=b, inducing=sum(len(basis.Z) for basis in sites.bases))
        for rows in row_blocks(b, size):
            self._check()
            log_phi = self._add(
                X[rows], factors.part(rows), [q for q, _ in cavities], sums, gradients if gradient else []
            )
            log_z += scale * log_phi
        if not math.isfinite(log_z):
            raise NumericalError(f"stochastic EP must stay finite; got a log evidence of {log_z}")
        shares = here / self._touching
        residual = np.concatenate([each.r - sites.e[c] * shares[c] for c, each in enumerate(sums)])
        if damping > 0:
            for c, each in enumerate(sums):
                sites.change(c, each, keep=1.0 - damping * float(shares[c]), take=damping)
        pairs = zip(gradients, qs, strict=True)
        return SiteUpdate([each.total(q, scale=scale) for each, (q, _) in pairs] if gradient else [], log_z, residual)

    def _add(
        self,
        X: Array,
        factors: Factors,
        cavities: list[GaussianQ],
        sums: list[Moments],
        gradients: list[SiteGradient],
    ) -> float:
        """Add a block of rows to the sums and the gradients; returns Σ log Φ(β)."""
        s, h, g = (np.empty((len(X), factors.F)) for _ in range(3))
        Ts, TSs = [], []
        for c, (basis, q) in enumerate(zip(self.sites.bases, cavities, strict=True)):
            T, s[:, c] = basis.whiten(X)
            TS, h[:, c], g[:, c] = projected(q, T)
            Ts.append(T)
            TSs.append(TS)
        at = factors.tilt(factors.start(), s=s, h=h, g=g)
        pi, b = factors.totals(at.target)
        for c, T in enumerate(Ts):
            sums[c].add(T, weights=pi[:, c], targets=b[:, c])
        if gradients:
            slopes = at.slopes()
            for c, each in enumerate(gradients):
                lam, xi, zeta = (values[:, c] for values in slopes[:3])
                each.add(X, Ts[c], TSs[c], lam=lam, xi=xi, zeta=zeta)
        return at.log_phi


class _CarriedTraining(MGPCTraining):
    """Training one batch at a time; a subclass says what the sites are."""

    def __init__(self, scheme: MGPCScheme, problem: Problem, *, all_rows: bool) -> None:
        super().__init__(scheme, problem, all_rows=all_rows)
        self._all_rows, self._log_z = all_rows, 0.0
        self._batches: Minibatches | None = None
        self._steps: _Steps
        if all_rows:
            self._steps = SignRates.of(scheme, self.hyper)
            if self.learns:
                self.trainer.rule = EvidenceRule(lambda: self._log_z, tolerance=scheme.value_tolerance)
            return
        self._steps = _AdamSteps(self.hyper.parts, rate=scheme.rate)
        self._batches = held_out_batches(self, scheme, problem.X, problem.y, rng=problem.rng)

    @property
    @abstractmethod
    def sites(self) -> CarriedSites:
        """The sites of all latent functions."""

    @abstractmethod
    def update(self, rows: Index | slice, *, scale: float) -> SiteUpdate:
        """Update the sites of some rows."""

    def end_iteration(self, *, share: float) -> None:
        """Do what is to be done after so large a share of the rows was seen."""

    def train(self) -> StoppedBy:
        """Iterate until the rule says so or the iterations are used up."""
        rows: Index | slice = slice(0, len(self.problem.X))
        scale = 1.0
        while self.trainer.running:
            if self._batches is not None:
                rows, scale = self._batches.draw(), self._batches.scale
            found = self.update(rows, scale=scale)
            self.damping.next(found.residual if self._all_rows else None)
            if self.learns:
                self._advance(found.gradient)
            self.end_iteration(share=1.0 / scale)
            if found.log_z is not None:
                self._log_z = found.log_z
            self.trainer.report(found.log_z if self._all_rows else None)
        return self.trainer.stopped_by

    def latents(self) -> tuple[Latent, ...]:
        """The latent functions that training has come to."""
        return self.sites.latents()

    def _advance(self, gradient: Gradient) -> None:
        """Take a step of the hyper-parameters and inducing inputs.

        Raises
        ------
        NumericalError
            It failed past every remedy.
        """
        step = self._steps.step(self.hyper.ascent(self.p, gradient))

        def attempt() -> None:
            p = self.hyper.bounded(self.p + step)
            self.sites.move(*self.hyper.at(p))
            self.p = p

        def step_back() -> None:
            nonlocal step
            self.retries += 1
            step = self._steps.shorter()

        persist(attempt, step_back=step_back)


class StoredTraining(_CarriedTraining):
    """Training of ep-mgpc on mini-batches, with stored vectors of a type that fits the memory."""

    def __init__(self, scheme: MGPCScheme, problem: Problem, *, dtype: type) -> None:
        super().__init__(scheme, problem, all_rows=False)
        roles = problem.factors(slice(0, 1)).roles
        self._ep = StoredEP(*self.hyper.at(self.p), n=len(problem.X), roles=roles, dtype=dtype)
        self._dtype, self._epochs, self._seen = dtype, 0, 0.0

    @property
    def sites(self) -> CarriedSites:
        """All sites together."""
        return self._ep.sites

    def update(self, rows: Index | slice, *, scale: float) -> SiteUpdate:
        """Update the sites of some rows."""
        assert not isinstance(rows, slice), "mini-batches are row numbers"
        X, factors = self.problem.X[rows], self.problem.factors(rows)
        return self._ep.update(rows, X, factors, scale=scale, damping=self.damping.value, gradient=self.learns)

    def end_iteration(self, *, share: float) -> None:
        """Clear rounding after every few epochs."""
        self._seen += share
        if self._seen < 1.0 - 1e-9:
            return
        self._seen, self._epochs = 0.0, self._epochs + 1
        if self._epochs % REFRESH == 0:
            self._ep.refresh(self.problem.factors(slice(0, len(self.problem.X))), check=self.trainer.check)

    def facts(self) -> dict[str, Any]:
        """And how the vectors are stored."""
        return super().facts() | {"stored_vectors": np.dtype(self._dtype).name}


class TiedTraining(_CarriedTraining):
    """Training of sep-mgpc, on all rows or on mini-batches."""

    def __init__(self, scheme: MGPCScheme, problem: Problem, *, all_rows: bool) -> None:
        super().__init__(scheme, problem, all_rows=all_rows)
        self._factors = problem.factors(slice(0, len(problem.X)))
        touching = self._factors.touching()
        if self._batches is not None and self._batches.without is not None:
            touching = touching - problem.factors(self._batches.without).touching()
        self._ep = TiedEP(
            *self.hyper.at(self.p), touching=touching, block_rows=scheme.block_rows, check=self.trainer.check
        )

    @property
    def sites(self) -> CarriedSites:
        """The tied sites."""
        return self._ep.sites

    def update(self, rows: Index | slice, *, scale: float) -> SiteUpdate:
        """Update the sites from some rows."""
        X, factors = self.problem.X, self._factors
        if not self._all_rows:
            X, factors = X[rows], self.problem.factors(rows)
        return self._ep.update(X, factors, scale=scale, damping=self.damping.value, gradient=self.learns)

    def facts(self) -> dict[str, Any]:
        """And that no vectors are stored."""
        return super().facts() | {"stored_vectors": "tied"}


class _Steps(Protocol):
    def step(self, gradient: Array) -> Array: ...

    def shorter(self) -> Array: ...


class _AdamSteps:
    """Adam for each latent function, whose vectors stay in the cache; a step can be taken again at half the rate."""

    def __init__(self, parts: Sequence[slice], *, rate: float) -> None:
        self._parts, self._rate = parts, rate
        self._adams = [Adam(part.stop - part.start) for part in parts]
        self._last = np.zeros(parts[-1].stop)

    def step(self, gradient: Array) -> Array:
        for part, adam in zip(self._parts, self._adams, strict=True):
            self._last[part] = adam.step(gradient[part], rate=self._rate)
        return self._last

    def shorter(self) -> Array:
        self._rate *= 0.5
        self._last *= 0.5
        return self._last


def stored_type(n: int, M: int, megabytes: float) -> type | None:
    """The type of n M stored numbers that fits: float64, float32, or None."""
    for dtype in (np.float64, np.float32):
        if n * M * np.dtype(dtype).itemsize <= megabytes * MEGABYTE:
            return dtype
    return None
