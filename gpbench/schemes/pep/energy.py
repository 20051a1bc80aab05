"""The energy of sparse power EP over all rows, one update of their sites, and the exact gradient in kernel and Z.

=========  ==================================================================================  ========
symbol     meaning                                                                             shape
=========  ==================================================================================  ========
n, D, M    rows, inputs, inducing inputs
F          latent functions: 1, or one for each class; all below is of one of them
Z, u       inducing inputs and the function's values there, u = L v                            (M, D), (M,)
K_mm, L    k(Z, Z) with jitter, and its lower Cholesky factor                                  (M, M)
T          whitened features K_nm L⁻ᵀ of rows, row t_n                                         (n, M)
k̃          what T leaves of the prior variances, κ - |t_n|²                                    (n,)
c, d       sites: row n is replaced by exp(c f - ½ d f²)                                       (n,)
G, b       Tᵀ diag(d) T and Tᵀ c                                                               (M, M), (M,)
m, S, C    q(v) = N(m, S), S = (I + G)⁻¹, m = S b, I + G = C Cᵀ                                 (M,), (M, M)
μ, r       T m and the diagonal of T S Tᵀ                                                      (n,)
E          the energy, power EP's log evidence                                                 scalar
p_μ, p_r   ∂E/∂μ and ∂E/∂r beyond the sites' own part: 0 at the fixed point                    (n,)
A̅          adjoint ∂E/∂A of an array A, sites held                                             as A
=========  ==================================================================================  ========

    E = ½ bᵀm - Σ log C_jj + Σ_n [e_n - N_n/(2u_n) - log(u_n)/(2a)],

its rows as in :mod:`gpbench.schemes.pep.rows`, all but e summed over latent functions too: the energy of Bui, Yan and
Turner 2017, a lower bound for a = 0 and EP's approximation of the log evidence under FITC for a = 1. At EP's fixed
point it does not change with the sites, and its gradient is that at sites held; here the gradient is exact at *any*
sites, so that they need not be settled before the kernel moves: one update inside each evaluation is enough. With
a̅ = S Tᵀ p_μ and R = Tᵀ diag(p_r) T,

    G̅ = -S R S - ½ (a̅ mᵀ + m a̅ᵀ),
    T̅ = (c - d μ + p_μ) mᵀ + c a̅ᵀ + diag(2 p_r - d) T S + 2 diag(d) T G̅ - 2 diag(h) T,

and K̅_nm = T̅ L⁻¹; through L goes T̅ᵀT (see :mod:`gpbench.model.basis`), and the adjoint of k̃ is h.

An evaluation walks over blocks of rows four times: for G and b of the sites under this kernel; for the new sites and
their G and b; for E; for the gradient. K_nm, T and T S are kept from one walk to the next as long as they fit
``KEEP_BYTES`` and made again otherwise, so that memory does not grow with n beyond c and d. Blocks are float32, which
halves the time; what is summed over blocks, and all that is (M, M) or (n,), is float64.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.linalg import blas

from gpbench.model.basis import Basis, row_blocks
from gpbench.model.gaussian import GaussianQ
from gpbench.model.kernels.base import row_buffer
from gpbench.schemes.pep.rows import Cavity, cavity, energies, free_gradient, matched, tilted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

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

ROWS = 2048
"""Of a block: .93 of the time of 1,024."""
MARGIN = 1.5
"""Times d, what is added to p_r and 2h: near the fixed point they are hardly below -d."""


class Sites(NamedTuple):
    """c and d of all rows and latent functions, each (F, n)."""

    c: Array
    d: Array


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The energy at kernels, inducing inputs and sites.

    Attributes
    ----------
    value : float
        E (nats).
    gradient : dict
        Its gradient in ``theta0`` (P,) and ``Z0`` (M, D) of the first latent function, and so on; in the constant
        ``mean`` of f (1,); and in ``free`` (k,), the likelihood's own parameters.
    sites : Sites
    bases, qs : tuple
        Of each latent function; q is what the sites make.
    clipped : int
        Rows in which a clip acted on a new site.
    least_left : float
        Least u.
    """

    value: float
    gradient: dict[str, Array]
    sites: Sites
    bases: tuple[Basis, ...]
    qs: tuple[GaussianQ, ...]
    clipped: int
    least_left: float


class Energy:
    """E of some rows.

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
        size: int = ROWS,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        self.X, self.y, self.power, self.single = X, np.asarray(y), power, single
        self.dtype = np.dtype(np.float32 if single else np.float64)
        self.blocks = list(row_blocks(len(X), size))
        self._check = check
        self._kept: list[Array] = []
        if self.dtype.itemsize * len(X) * X.shape[1] <= KEEP_BYTES:
            self._kept = [self._read(rows) for rows in self.blocks]
        self._rooms: dict[tuple[int, ...], Array] = {}
        self.held: dict[tuple[int, int], Any] = {}

    def at(
        self,
        kernels: Sequence[Kernel],
        inducing: Sequence[Array],
        *,
        likelihood: Likelihood,
        sites: Sites,
        mean: float = 0.0,
        jitter: float = JITTER,
        updates: int = 1,
        rate: float = 1.0,
    ) -> Evaluation:
        """The energy and its gradient after some updates of the sites, by default one.

        Parameters
        ----------
        kernels, inducing : sequences
            Kernel and Z (M, D) of each latent function.
        likelihood : Likelihood
        sites : Sites
            To begin from.
        mean : float
            Constant mean of f: the likelihood sees f + mean.
        jitter : float
            Relative.
        updates : int
            Of all sites.
        rate : float
            How far each update goes.

        Raises
        ------
        NumericalError
            A K_mm is not positive definite with this jitter, or a number is not finite.
        """
        bases = [
            Basis(kernel, Z, jitter=jitter * float(kernel.diag(Z).mean()))
            for kernel, Z in zip(kernels, inducing, strict=True)
        ]
        walk = _Walk(self, bases, likelihood=likelihood, mean=mean)
        walk.begin(sites)
        for _ in range(updates):
            walk.update(rate)
        return walk.evaluate(jitter=jitter)

    def sites_of(
        self, bases: Sequence[Basis], qs: Sequence[GaussianQ], *, likelihood: Likelihood, mean: float = 0.0
    ) -> Sites:
        """The sites to go on with from q that other rows have made: one update in which q itself is the cavity."""
        walk = _Walk(self, bases, likelihood=likelihood, mean=mean)
        return walk.of_others(qs)

    def block(self, number: int) -> Array:
        """Rows of a block, shape (b, D)."""
        self._check()
        return self._kept[number] if self._kept else self._read(self.blocks[number])

    def room(self, b: int, width: int, *which: int) -> Array:
        """A buffer (b, width), the same one for the same ``which``; fresh memory costs a pass."""
        key = (b, width, *which)
        if key not in self._rooms:
            self._rooms[key] = row_buffer(b, width, self.dtype)
        return self._rooms[key]

    def keeps(self, entries: int) -> bool:
        """Whether three matrices of so many entries in all rows are to be kept."""
        return 3 * self.dtype.itemsize * len(self.X) * entries <= KEEP_BYTES

    def _read(self, rows: slice) -> Array:
        return self.X[rows].astype(self.dtype, order="C")


class _Walk:
    """The walks over the rows that make one evaluation."""

    def __init__(self, energy: Energy, bases: Sequence[Basis], *, likelihood: Likelihood, mean: float) -> None:
        self._energy, self._likelihood, self._mean = energy, likelihood, mean
        keep = energy.keeps(sum(len(basis.Z) for basis in bases))
        self._latents = [_Latent(energy, basis, number=k, keep=keep) for k, basis in enumerate(bases)]
        self._clipped = 0

    def begin(self, sites: Sites) -> None:
        """Take sites, and their q under these kernels."""
        for latent, c, d in zip(self._latents, *sites, strict=True):
            for number, rows in enumerate(self._energy.blocks):
                latent.add_sites(number, c[rows], d[rows])
            latent.settle()
        self._sites = sites

    def of_others(self, qs: Sequence[GaussianQ]) -> Sites:
        """The sites of one update in which a row has no share of q."""
        none = np.zeros((len(self._latents), len(self._energy.X)))
        for latent, q in zip(self._latents, qs, strict=True):
            latent.take(q)
        self._sites = Sites(none, none)
        self.update(1.0)
        return self._sites

    def update(self, rate: float) -> None:
        """Update all sites in parallel, each from its own cavity."""
        energy, old = self._energy, self._sites
        new, self._clipped = Sites(np.empty(old.c.shape), np.empty(old.d.shape)), 0
        for number, rows in enumerate(energy.blocks):
            _, _, at = self._cavities(number, rows, keep=False)
            c, d, wrong = matched(
                self._likelihood, energy.y[rows], self._seen(at), power=energy.power, single=energy.single
            )
            c, d = np.atleast_2d(c - d * self._mean), np.atleast_2d(d)  # of f without its mean
            if rate != 1.0:
                c, d = old.c[:, rows] + rate * (c - old.c[:, rows]), old.d[:, rows] + rate * (d - old.d[:, rows])
            new.c[:, rows], new.d[:, rows] = c, d
            self._clipped += wrong
            for latent, own_c, own_d in zip(self._latents, c, d, strict=True):
                latent.add_sites(number, own_c, own_d)
        for latent in self._latents:
            latent.settle()
        self._sites = new

    def evaluate(self, *, jitter: float) -> Evaluation:
        """E at the sites and its gradient."""
        energy, (c, d), latents = self._energy, self._sites, self._latents
        value, least = sum(latent.log_normaliser for latent in latents), 1.0
        adjoints = Adjoints(*(np.empty(c.shape) for _ in range(4)))
        by_mean, dfree = 0.0, np.zeros(len(self._likelihood.free))
        for number, rows in enumerate(energy.blocks):
            mu, r, at = self._cavities(number, rows, keep=True)
            seen = self._seen(at)
            found = tilted(self._likelihood, energy.y[rows], seen, power=energy.power, single=energy.single)
            part = energies(found, at, c=c[:, rows], d=d[:, rows], mu=mu, r=r, power=energy.power)
            value += part.value
            by_mean += float(found.g.sum())
            if dfree.size:
                dfree += free_gradient(self._likelihood, energy.y[rows], seen, power=energy.power)
            least = min(least, float(at.u.min()))
            adjoints.by_mean[:, rows], adjoints.by_var[:, rows] = part.by_mean, part.by_var
            adjoints.h[:, rows] = found.h
            adjoints.slope[:, rows] = c[:, rows] - d[:, rows] * mu + part.by_mean
            for k, latent in enumerate(latents):
                latent.add_adjoints(number, Adjoints(*(each[k, rows] for each in adjoints)), d[k, rows])
        gradient = {"mean": np.array([by_mean]), "free": dfree}
        for k, latent in enumerate(latents):
            own = Adjoints(*(each[k] for each in adjoints))
            gradient[f"theta{k}"], gradient[f"Z{k}"] = latent.pull_back(c[k], d[k], own, jitter=jitter)
        bases, qs = tuple(latent.basis for latent in latents), tuple(latent.q for latent in latents)
        return Evaluation(value, gradient, self._sites, bases, qs, self._clipped, least)

    def _cavities(self, number: int, rows: slice, *, keep: bool) -> tuple[Array, Array, Cavity]:
        """μ and r of a block and its rows' cavities, each (F, b); T S is left in its place if it is to be kept."""
        pairs = [latent.marginals(number, keep=keep) for latent in self._latents]
        mu, r = (stacked(each) for each in zip(*pairs, strict=True))
        rest = stacked([latent.rest[rows] for latent in self._latents])
        c, d = self._sites.c[:, rows], self._sites.d[:, rows]
        return mu, r, cavity(c, d, mu=mu, r=r, rest=rest, power=self._energy.power)

    def _seen(self, at: Cavity) -> Cavity:
        """The cavities as the likelihood sees them: with the mean of f, and (b,) where there is one latent function."""
        if self._mean:
            at = at._replace(mean=at.mean + self._mean)
        return Cavity(*(each[0] for each in at)) if len(self._latents) == 1 else at


class Adjoints(NamedTuple):
    """What T̅ is made of beside the sites: the coefficient of mᵀ, p_μ, p_r and h; each (n,), or (F, n) together."""

    slope: Array
    by_mean: Array
    by_var: Array
    h: Array


class _Latent:
    """One latent function in an evaluation.

    Attributes
    ----------
    basis : Basis
    q : GaussianQ
    rest : (n,)
        k̃, known of the blocks that were asked for.
    """

    q: GaussianQ

    def __init__(self, energy: Energy, basis: Basis, *, number: int, keep: bool) -> None:
        self.basis, self._energy, self._which, self._keep = basis, energy, number, keep
        self._features = basis.kernel.bind(basis.Z, single=energy.single)
        self._L_inv = self._triangular(basis.L_inv)
        self._made = 0  # blocks whose T is there, where it is kept
        self._current = -1  # the one block whose T is there, where it is not
        self.rest, self._free = np.empty(len(energy.X)), np.empty(len(energy.X), dtype=bool)
        self._M = M = len(basis.Z)
        self._G, self._b, self._R, self._H = np.zeros((M, M)), np.zeros(M), np.zeros((M, M)), np.zeros((M, M))
        self._p, self._t = np.zeros(M), np.zeros(M)

    @property
    def log_normaliser(self) -> float:
        """½ bᵀm - Σ log C_jj of the sites that were settled last."""
        return self.q.log_normaliser(self._settled_b)

    def add_sites(self, number: int, c: Array, d: Array) -> None:
        """Add a block's sites, each (b,), to the sums G and b."""
        T = self._T(number)
        self._G += self._gram(T, d)
        self._b += self._cast(c) @ T

    def settle(self) -> None:
        """Make q of the sums, which begin anew."""
        self._settled_G, self._settled_b = self._G, self._b
        self.take(GaussianQ.of_sites(self._G, self._b))
        self._G, self._b = np.zeros((self._M, self._M)), np.zeros(self._M)

    def take(self, q: GaussianQ) -> None:
        """Go on from q."""
        self.q, self._m = q, self._cast(q.mean)
        self._roots: dict[str, Array] = {}  # S and C⁻¹ in the blocks' type, once they are asked for

    def marginals(self, number: int, *, keep: bool) -> tuple[Array, Array]:
        """μ and r of a block, each (b,), and where it is to be kept T S in its place."""
        T, room = self._T(number), self._TS(number)
        if keep:
            r = row_dots(T, self._times_S(T, room))
        else:  # S = C⁻ᵀ C⁻¹: half the products
            np.copyto(room, T)
            times_triangle(room, self._root("root_inverse"), trans=True)
            r = row_dots(room, room)
        return (T @ self._m).astype(np.float64), r.astype(np.float64)

    def add_adjoints(self, number: int, at: Adjoints, d: Array) -> None:
        """Add a block's adjoints and sites d, each (b,), to what G̅ and Y are made of.

        To weights of either sign a multiple of d is added and of G taken away in the end, so that they are positive.
        """
        rows = self._energy.blocks[number]
        T, at.h[...] = self._T(number), at.h * self._free[rows]  # a k̃ that was cut off stands still
        self._p += self._cast(at.by_mean) @ T
        self._t += self._cast(at.slope) @ T
        self._R += self._gram(T, at.by_var + MARGIN * d)
        self._H += self._gram(T, 2.0 * at.h + MARGIN * d)

    def pull_back(self, c: Array, d: Array, at: Adjoints, *, jitter: float) -> tuple[Array, Array]:
        """Gradients in theta and Z, by [diag(d) T, slope, c] [2 G̅; mᵀ; a̅ᵀ] and what scales T S and T."""
        energy, basis, M = self._energy, self.basis, self._M
        S, m, G, h = self.q.covariance, self.q.mean, self._settled_G, at.h
        a_bar = S @ self._p
        R, twice_H = self._R - MARGIN * G, self._H - MARGIN * G
        G_bar = -(S @ R @ S) - 0.5 * (np.outer(a_bar, m) + np.outer(m, a_bar))
        Y = np.outer(m, self._t) + np.outer(a_bar, self._settled_b)
        Y += S @ (2.0 * R - G) + 2.0 * (G_bar @ G) - twice_H
        right = self._cast(np.concatenate([2.0 * G_bar, m[None], a_bar[None]]))
        dtheta, dZ = np.zeros(basis.kernel.theta.size), np.zeros(basis.Z.shape)
        for number, rows in enumerate(energy.blocks):
            T, TS = self._T(number), self._TS(number)
            if not self._keep:
                self._times_S(T, TS)
            weight, through, past = (
                self._cast(each)[:, None] for each in (d[rows], 2.0 * at.by_var[rows] - d[rows], -2.0 * h[rows])
            )
            work, left, K_bar = (self._work(len(T), which) for which in range(3))
            np.multiply(T, weight, out=left[:, :M])
            left[:, M], left[:, M + 1] = at.slope[rows], c[rows]
            np.matmul(left, right, out=K_bar)  # T̅, then K̅
            K_bar += np.multiply(TS, through, out=work)
            K_bar += np.multiply(T, past, out=work)
            times_triangle(K_bar, self._L_inv)
            if self._keep:
                self._features.take_back(energy.held[self._which, number])
            part_theta, part_Z = self._features.pullback(K_bar)
            dtheta += part_theta
            dtheta += basis.kernel.diag_pullback(energy.block(number), h[rows])
            dZ += part_Z
        part_theta, part_Z = basis.gram_pullback(np.asfortranarray(Y), jitter=jitter)
        return dtheta + part_theta, dZ + part_Z

    def _T(self, number: int) -> Array:
        """T of a block (b, M), made when it is first asked for, or each time if it is not kept."""
        energy, kernel, rows = self._energy, self.basis.kernel, self._energy.blocks[number]
        T = energy.room(rows.stop - rows.start, self._M, self._which, number if self._keep else 0, 0)
        if number < self._made or number == self._current:
            return T
        X = energy.block(number)
        if self._keep and (self._which, number) in energy.held:  # the room of the last evaluation
            self._features.take_back(energy.held[self._which, number])
        np.copyto(T, self._features.cross(X))
        times_triangle(T, self._L_inv, trans=True)
        if self._keep:
            energy.held[self._which, number] = self._features.hand_over()
            self._made += 1
        else:
            self._current = number
        kappa = kernel.diag(X) if kernel.constant_diag is None else kernel.constant_diag
        least = LEAST_REST_SINGLE * kappa if energy.single else LEAST_REST
        rest = kappa - row_dots(T, T).astype(np.float64)
        self._free[rows] = rest > least
        self.rest[rows] = np.maximum(rest, least)
        return T

    def _TS(self, number: int) -> Array:
        rows = self._energy.blocks[number]
        return self._energy.room(rows.stop - rows.start, self._M, self._which, number if self._keep else 0, 1)

    def _times_S(self, T: Array, out: Array) -> Array:
        """T S, into a buffer."""
        return np.matmul(T, self._root("covariance"), out=out)

    def _root(self, name: str) -> Array:
        if name not in self._roots:
            self._roots[name] = self._triangular(getattr(self.q, name))
        return self._roots[name]

    def _gram(self, T: Array, weights: Array) -> Array:
        """Tᵀ diag(weights) T (M, M) of a block; for half the work where no weight is negative."""
        work = self._work(len(T), 0)
        if weights.min() < 0.0:
            return T.T @ np.multiply(T, self._cast(weights)[:, None], out=work)
        scaled = np.multiply(T, self._cast(np.sqrt(weights))[:, None], out=work)
        return scaled.T @ scaled  # numpy sees the one matrix

    def _work(self, b: int, which: int) -> Array:
        return self._energy.room(b, self._M + 2 * (which == 1), which)

    def _cast(self, values: Array) -> Array:
        return values.astype(self._energy.dtype, order="C")

    def _triangular(self, A: Array) -> Array:
        return A.astype(self._energy.dtype, order="F")


def stacked(rows: Sequence[Array]) -> Array:
    """Vectors (b,) as the rows of a matrix, without a copy where there is one."""
    return rows[0][None] if len(rows) == 1 else np.stack(rows)


def row_dots(A: Array, B: Array) -> Array:
    """Diagonal of A Bᵀ, shape (b,), of matrices (b, M)."""
    return np.asarray(np.einsum("ij,ij->i", A, B))


def times_triangle(A: Array, L: Array, *, trans: bool = False) -> None:
    """Put A L, or A Lᵀ, in the place of A (b, M) in either order; L (M, M) lower triangular, in Fortran's.

    For 0.7 of the time of a full product.
    """
    trmm: Any = blas.strmm if A.dtype == np.float32 else blas.dtrmm
    if A.flags.f_contiguous:
        trmm(1.0, L, A, side=1, lower=1, trans_a=int(trans), overwrite_b=1)
    else:
        trmm(1.0, L, A.T, side=0, lower=1, trans_a=int(not trans), overwrite_b=1)
