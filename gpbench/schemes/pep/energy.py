"""The energy of sparse power EP over all rows, one update of their sites, and the exact gradient in kernel and Z.

=========  ==================================================================================  ========
symbol     meaning                                                                             shape
=========  ==================================================================================  ========
n, D, M    rows, inputs, inducing inputs
Z, u       inducing inputs and the function's values there, u = L v                            (M, D), (M,)
K_mm, L    k(Z, Z) with jitter, and its lower Cholesky factor                                  (M, M)
T          whitened features K_nm L⁻ᵀ of rows, row t_n                                         (n, M)
k̃          what T leaves of the prior variances, κ - |t_n|²                                    (n,)
c, d       sites: row n is replaced by exp(c f - ½ d f²)                                       (n,)
G, b       Tᵀ diag(d) T and Tᵀ c                                                               (M, M), (M,)
m, S, C    q(v) = N(m, S), S = (I + G)⁻¹, m = S b, I + G = C Cᵀ                                 (M,), (M, M)
μ, r       T m and the diagonal of T S Tᵀ                                                      (n,)
F          the energy, power EP's log evidence                                                 scalar
p_μ, p_r   ∂F/∂μ and ∂F/∂r beyond the sites' own part: 0 at the fixed point                    (n,)
A̅          adjoint ∂F/∂A of an array A, sites held                                             as A
=========  ==================================================================================  ========

    F = ½ bᵀm - Σ log C_jj + Σ_n [e_n - N_n/(2u_n) - log(u_n)/(2a)],

its rows as in :mod:`gpbench.schemes.pep.rows`: the energy of Bui, Yan and Turner 2017, a lower bound for a = 0 and EP's
approximation of the log evidence under FITC for a = 1. At EP's fixed point it does not change with the sites, and its
gradient is that at sites held; here the gradient is exact at *any* sites, so that the sites need not be settled before
the kernel moves: one update inside each evaluation is enough. With a̅ = S Tᵀ p_μ and R = Tᵀ diag(p_r) T,

    G̅ = -S R S - ½ (a̅ mᵀ + m a̅ᵀ),
    T̅ = (c - d μ + p_μ) mᵀ + c a̅ᵀ + diag(2 p_r - d) T S + 2 diag(d) T G̅ - 2 diag(h) T,

and K̅_nm = T̅ L⁻¹; through L goes T̅ᵀT (see :mod:`gpbench.model.basis`), and the adjoint of k̃ is h.

An evaluation walks over blocks of rows four times: for G and b of the sites under this kernel; for the new sites and
their G and b; for F; for the gradient. K_nm, T and T S are kept from one walk to the next as long as they fit
``KEEP_BYTES`` and made again otherwise, so that memory does not grow with n beyond c and d. Blocks are float32, which
halves the time; what is summed over blocks, and all that is (M, M) or (n,), is float64.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.linalg import blas

from gpbench.model.basis import BLOCK_ROWS, Basis, row_blocks
from gpbench.model.gaussian import GaussianQ
from gpbench.schemes.pep.rows import Cavity, cavity, energies, free_gradient, matched, tilted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gpbench.model.kernels import Kernel
    from gpbench.model.likelihoods import Likelihood
    from gpbench.model.rows import Array, Labels, Rows

__all__ = ["JITTER", "KEEP_BYTES", "Energy", "Evaluation", "Sites"]

KEEP_BYTES = 64 << 20
"""Bytes of the rows themselves, and of K_nm, T and T S, up to which they are kept from one walk to the next."""
JITTER = 1e-6
"""Of K_mm, relative to its mean diagonal, which it follows: the gradient knows it."""
LEAST_REST = 1e-10
LEAST_REST_SINGLE = 1e-5
"""Least k̃, the second relative to κ: what float32 leaves of κ - |t|²."""


class Sites(NamedTuple):
    """c and d of all rows, each (n,)."""

    c: Array
    d: Array


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The energy at a kernel, Z and sites.

    Attributes
    ----------
    value : float
        F (nats).
    gradient : dict
        Its gradient in ``theta`` (P,) of the kernel, ``Z`` (M, D), the constant ``mean`` of f (1,), and ``free`` (k,),
        the likelihood's own parameters.
    sites : Sites
    basis : Basis
    q : GaussianQ
        That the sites make.
    clipped : int
        Rows in which a clip acted on the new site.
    least_left : float
        Least u.
    """

    value: float
    gradient: dict[str, Array]
    sites: Sites
    basis: Basis
    q: GaussianQ
    clipped: int
    least_left: float


class Energy:
    """F of some rows.

    Parameters
    ----------
    X : (n, D)
        Read block by block.
    y : (n,)
    power : float
        a.
    single : bool
        Whether blocks are float32.
    size : int
        Rows in a block.
    check : callable
        Called at each block; may raise to end training.
    """

    def __init__(
        self,
        X: Rows,
        y: Labels,
        *,
        power: float,
        single: bool = True,
        size: int = BLOCK_ROWS,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        self.X, self.y, self.power, self.single = X, np.asarray(y), power, single
        self.dtype = np.dtype(np.float32 if single else np.float64)
        self.blocks = list(row_blocks(len(X), size))
        self._check, self._size = check, size
        self._kept: list[Array] = []
        if self.dtype.itemsize * len(X) * X.shape[1] <= KEEP_BYTES:
            self._kept = [self._read(rows) for rows in self.blocks]
        self._M = 0
        self._pairs: list[tuple[Array, Array]] = []
        self._work: dict[int, tuple[Array, Array, Array]] = {}

    def at(
        self,
        kernel: Kernel,
        Z: Array,
        *,
        likelihood: Likelihood,
        sites: Sites,
        mean: float = 0.0,
        jitter: float = JITTER,
        updates: int = 1,
    ) -> Evaluation:
        """The energy and its gradient after some updates of the sites, by default one.

        Parameters
        ----------
        kernel : Kernel
        Z : (M, D)
        likelihood : Likelihood
        sites : Sites
            To begin from.
        mean : float
            Constant mean of f: the likelihood sees f + mean.
        jitter : float
            Relative.
        updates : int
            Of all sites.

        Raises
        ------
        NumericalError
            K_mm is not positive definite with this jitter, or a number is not finite.
        """
        basis = Basis(kernel, Z, jitter=jitter * float(kernel.diag(Z).mean()))
        walk = _Walk(self, basis, likelihood=likelihood, mean=mean)
        walk.begin(sites)
        for _ in range(updates):
            walk.update()
        return walk.evaluate(jitter=jitter)

    def sites_of(self, basis: Basis, q: GaussianQ, *, likelihood: Likelihood, mean: float = 0.0) -> Sites:
        """The sites to go on with from a q that other rows have made: one update in which q itself is the cavity."""
        walk = _Walk(self, basis, likelihood=likelihood, mean=mean)
        return walk.of_others(q)

    def block(self, index: int) -> Array:
        """Rows of a block, shape (b, D)."""
        self._check()
        return self._kept[index] if self._kept else self._read(self.blocks[index])

    def buffers(self, M: int) -> tuple[list[tuple[Array, Array]], bool]:
        """Room for each block's T and T S, and whether it is each block's own; all in Fortran's order."""
        keep = 3 * self.dtype.itemsize * len(self.X) * M <= KEEP_BYTES
        if self._M != M:
            sizes = [rows.stop - rows.start for rows in self.blocks]
            one = {b: (self._room(b, M), self._room(b, M)) for b in set(sizes)}
            self._M = M
            self._pairs = [(self._room(b, M), self._room(b, M)) if keep else one[b] for b in sizes]
            self._work = {b: (self._room(b, M), self._room(b, M + 2), self._room(b, M)) for b in set(sizes)}
        return self._pairs, keep

    def work(self, b: int) -> tuple[Array, Array, Array]:
        """Room for a block of b rows: (b, M), (b, M + 2) and (b, M); fresh memory would cost a pass over it."""
        return self._work[b]

    def _room(self, b: int, width: int) -> Array:
        return np.empty((b, width), dtype=self.dtype, order="F")

    def _read(self, rows: slice) -> Array:
        return self.X[rows].astype(self.dtype, order="C")


class _Block(NamedTuple):
    """Rows, their place in the buffers, T (b, M) and room for T S (b, M)."""

    number: int
    rows: slice
    T: Array
    TS: Array


class _Walk:
    """The walks over the rows that make one evaluation."""

    def __init__(self, energy: Energy, basis: Basis, *, likelihood: Likelihood, mean: float) -> None:
        self._energy, self._basis, self._likelihood, self._mean = energy, basis, likelihood, mean
        self._features = basis.kernel.bind(basis.Z, single=energy.single)
        self._buffers, self._keep = energy.buffers(len(basis.Z))
        self._L_inv = basis.L_inv.astype(energy.dtype, order="F")
        self._trmm: Any = blas.strmm if energy.single else blas.dtrmm  # 0.7 of the time of a full product
        self._rest, self._free = np.empty(len(energy.X)), np.empty(len(energy.X), dtype=bool)
        self._made = False  # whether T of all rows is there
        self._held: list[Any] = []  # what the kernel's pullback needs of each block

    def begin(self, sites: Sites) -> None:
        """Take sites, and their q under this kernel."""
        sums = _Sums(len(self._basis.Z), self._energy.dtype)
        for block in self._blocks():
            work = self._energy.work(len(block.T))[0]
            sums.add(block.T, c=sites.c[block.rows], d=sites.d[block.rows], work=work)
        self._take(sites, sums, clipped=0)

    def of_others(self, q: GaussianQ) -> Sites:
        """The sites of one update in which a row has no share of q."""
        none = np.zeros(len(self._energy.X))
        self._set(Sites(none, none), q)
        self.update()
        return self._sites

    def update(self) -> None:
        """Update all sites in parallel, each from its own cavity."""
        energy, sums = self._energy, _Sums(len(self._basis.Z), self._energy.dtype)
        n = len(energy.X)
        new, clipped = Sites(np.empty(n), np.empty(n)), 0
        for block in self._blocks():
            rows = block.rows
            _, _, at = self._marginals(block)
            c, d, wrong = matched(self._likelihood, energy.y[rows], at, power=energy.power, single=energy.single)
            new.c[rows], new.d[rows] = c - d * self._mean, d  # of f without its mean
            clipped += wrong
            sums.add(block.T, c=new.c[rows], d=d, work=energy.work(len(c))[0])
        self._take(new, sums, clipped=clipped)

    def evaluate(self, *, jitter: float) -> Evaluation:
        """F at the sites and its gradient."""
        energy, basis, q, (c, d) = self._energy, self._basis, self._q, self._sites
        n, M = len(energy.X), len(basis.Z)
        value, least = q.log_normaliser(self._b), 1.0
        g, h, by_var, slope = (np.empty(n) for _ in range(4))
        p, R, dfree = np.zeros(M), np.zeros((M, M)), np.zeros(len(self._likelihood.free))
        for block in self._blocks():
            rows, T = block.rows, block.T
            mu, r, at = self._marginals(block)
            found = tilted(self._likelihood, energy.y[rows], at, power=energy.power, single=energy.single)
            part = energies(found, at, c=c[rows], d=d[rows], mu=mu, r=r, power=energy.power)
            value += part.value
            if dfree.size:
                dfree += free_gradient(self._likelihood, energy.y[rows], at, power=energy.power)
            least = min(least, float(at.u.min()))
            g[rows], h[rows], by_var[rows] = part.g, part.h, part.by_var
            slope[rows] = c[rows] - d[rows] * mu + part.by_mean
            p += self._cast(part.by_mean) @ T
            R += T.T @ np.multiply(T, self._cast(part.by_var)[:, None], out=energy.work(len(T))[0])
        h *= self._free  # a k̃ that was cut off stands still
        dtheta, dZ = self._pull_back(p, R, slope=slope, h=h, by_var=by_var, jitter=jitter)
        gradient = {"theta": dtheta, "Z": dZ, "mean": np.array([g.sum()]), "free": dfree}
        return Evaluation(value, gradient, self._sites, basis, q, self._clipped, least)

    def _pull_back(
        self, p: Array, R: Array, *, slope: Array, h: Array, by_var: Array, jitter: float
    ) -> tuple[Array, Array]:
        """T̅ block by block: [diag(d) T, slope, c] [2 G̅; mᵀ; a̅ᵀ] and what scales T S and T; then through L."""
        energy, basis, (c, d) = self._energy, self._basis, self._sites
        S, m, M = self._q.covariance, self._q.mean, len(basis.Z)
        a_bar = S @ p
        G_bar = S @ R @ S + 0.5 * (np.outer(a_bar, m) + np.outer(m, a_bar))
        right = self._cast(np.concatenate([-2.0 * G_bar, m[None], a_bar[None]]))
        columns = self._cast(np.stack([d, slope, c, 2.0 * by_var - d, -2.0 * h])[:, :, None])
        dtheta, dZ, Y = np.zeros(basis.kernel.theta.size), np.zeros(basis.Z.shape), np.zeros((M, M))
        for block in self._blocks():
            T, TS = block.T, block.TS
            if not self._keep:
                np.matmul(T, self._S, out=TS)
            weight, slopes, pull, through, past = columns[:, block.rows]
            work, left, T_bar = energy.work(len(T))
            np.multiply(T, weight, out=left[:, :M])
            left[:, M:] = np.concatenate([slopes, pull], axis=1)
            np.matmul(left, right, out=T_bar)
            T_bar += np.multiply(TS, through, out=work)
            T_bar += np.multiply(T, past, out=work)
            Y += T_bar.T @ T
            X = energy.block(block.number)
            if self._keep:
                self._features.take_back(self._held[block.number])
            else:
                self._features.cross(X)
            K_bar = self._trmm(1.0, self._L_inv, T_bar, side=1, lower=1, overwrite_b=1)
            part_theta, part_Z = self._features.pullback(K_bar)
            dtheta += part_theta
            dtheta += basis.kernel.diag_pullback(X, h[block.rows])
            dZ += part_Z
        part_theta, part_Z = basis.gram_pullback(np.asfortranarray(Y), jitter=jitter)
        return dtheta + part_theta, dZ + part_Z

    def _take(self, sites: Sites, sums: _Sums, *, clipped: int) -> None:
        self._clipped, self._b = clipped, sums.b
        self._set(sites, GaussianQ.of_sites(sums.G, sums.b))

    def _set(self, sites: Sites, q: GaussianQ) -> None:
        self._sites, self._q = sites, q
        self._S, self._m = self._cast(q.covariance), self._cast(q.mean)

    def _marginals(self, block: _Block) -> tuple[Array, Array, Cavity]:
        """μ and r of a block and its rows' cavities; T S is left in its place."""
        rows = block.rows
        TS = np.matmul(block.T, self._S, out=block.TS)
        mu, r = (block.T @ self._m).astype(np.float64), row_dots(block.T, TS).astype(np.float64)
        c, d = self._sites.c[rows], self._sites.d[rows]
        at = cavity(c, d, mu=mu, r=r, rest=self._rest[rows], power=self._energy.power)
        return mu, r, at._replace(mean=at.mean + self._mean) if self._mean else at

    def _blocks(self) -> Iterator[_Block]:
        """T block by block, made on the first walk, or on each if it is not kept."""
        energy, prior = self._energy, self._basis.kernel.constant_diag
        for number, rows in enumerate(energy.blocks):
            T, TS = self._buffers[number]
            if not (self._keep and self._made):
                X = energy.block(number)
                np.copyto(T, self._features.cross(X))
                self._trmm(1.0, self._L_inv, T, side=1, lower=1, trans_a=1, overwrite_b=1)
                if self._keep:
                    self._held.append(self._features.hand_over())
                kappa = self._basis.kernel.diag(X) if prior is None else prior
                least = LEAST_REST_SINGLE * kappa if energy.single else LEAST_REST
                rest = kappa - row_dots(T, T).astype(np.float64)
                self._free[rows] = rest > least
                self._rest[rows] = np.maximum(rest, least)
            yield _Block(number, rows, T, TS)
        self._made = True

    def _cast(self, values: Array) -> Array:
        return values.astype(self._energy.dtype, order="C")


class _Sums:
    """G and b, block by block."""

    def __init__(self, M: int, dtype: np.dtype[Any]) -> None:
        self.G, self.b = np.zeros((M, M)), np.zeros(M)
        self._dtype = dtype

    def add(self, T: Array, *, c: Array, d: Array, work: Array) -> None:
        scaled = np.multiply(T, np.sqrt(d).astype(self._dtype)[:, None], out=work)
        self.G += scaled.T @ scaled  # numpy sees the one matrix: half the work
        self.b += c.astype(self._dtype) @ T


def row_dots(A: Array, B: Array) -> Array:
    """Diagonal of A Bᵀ, shape (b,), of matrices (b, M)."""
    return np.asarray(np.einsum("ij,ij->i", A, B))
