"""One latent function: its kernel, inducing inputs and q(u), and its marginals at new inputs.

==========  =====================================================================  =======
symbol      meaning                                                                shape
==========  =====================================================================  =======
Z           inducing inputs                                                        (M, d)
K           k(Z, Z) with white noise and jitter                                    (M, M)
L           its lower Cholesky factor                                              (M, M)
u           function values at Z: u = c + L v, c the constant mean                 (M,)
m_w, S_w    mean and covariance of q(v) (whitened)                                 (M,), (M, M)
k           k(Z, x), without white noise                                           (M,)
t           L⁻¹ k                                                                  (M,)
κ           prior variance k(x, x) with white noise                                scalar
==========  =====================================================================  =======

The marginal of q(f) at x has mean c + tᵀm_w and variance κ - tᵀ(I - S_w)t. With I - S_w = U diag(λ) Uᵀ and
V = L⁻ᵀ U |λ|^½ that is κ - Σ_i sign(λ_i) (kᵀV)_i²: one matrix product for a block of rows instead of two triangular
ones, with norms no larger than those of L⁻¹, so that rounding enters as it does in t. Directions with |λ| below 1e-14
(the data say nothing about them) are left out; they change the variance by less than 1e-14 κ.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from scipy.linalg import eigh

from gpbench.errors import NumericalError, UsageError
from gpbench.model.kernels import kernel_from_spec
from gpbench.model.linalg import cholesky, inverse_lower, trsm, trsv

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpbench.model.basis import Basis
    from gpbench.model.gaussian import Form, GaussianQ
    from gpbench.model.kernels import Kernel
    from gpbench.model.rows import Array

__all__ = ["Latent", "Marginals"]

_NEGLIGIBLE = 1e-14


@dataclass(frozen=True, eq=False)
class Latent:
    """A latent function with its Gaussian q(u); arrays are copied, so that a scheme may go on with its buffers.

    Parameters
    ----------
    kernel : Kernel
        With its hyper-parameters.
    Z : (M, d)
        Inducing inputs.
    m_w : (M,)
        Whitened mean.
    root : (M, M)
        L_w with S_w = L_w L_wᵀ (any square root), or the lower Cholesky factor C of the precision, S_w = (C Cᵀ)⁻¹.
    form : {"covariance", "precision"}
        Which of the two ``root`` is.
    jitter : float
        Absolute jitter in K, the one that the scheme's own factor L has.
    mean : float
        Constant prior mean c.

    Raises
    ------
    UsageError
        Shapes do not fit.
    NumericalError
        A number is not finite: the scheme diverged.
    """

    kernel: Kernel
    Z: Array
    m_w: Array
    root: Array
    form: Form
    jitter: float
    mean: float = 0.0

    def __post_init__(self) -> None:
        for name in ("Z", "m_w", "root"):
            values = np.array(getattr(self, name), dtype=np.float64, order="F" if name == "root" else "C")
            if not np.isfinite(values).all():
                bad = int((~np.isfinite(values)).sum())
                raise NumericalError(f"{name} of a posterior must be finite; got {bad} numbers that are not")
            values.setflags(write=False)
            object.__setattr__(self, name, values)
        if self.Z.ndim != 2:
            raise UsageError(f"Z of a posterior must have shape (M, d); got {self.Z.shape}")
        M = self.Z.shape[0]
        if self.m_w.shape != (M,) or self.root.shape != (M, M):
            raise UsageError(
                f"{M} inducing inputs need m_w ({M},) and root ({M}, {M}); got {self.m_w.shape} and {self.root.shape}"
            )
        if self.form not in {"covariance", "precision"}:
            raise UsageError(f"form must be covariance or precision; got {self.form!r}")

    @classmethod
    def of(cls, basis: Basis, q: GaussianQ, *, mean: float = 0.0) -> Self:
        """The latent function of q(v) at a basis, with the constant prior mean c = ``mean``."""
        return cls(basis.kernel, basis.Z, q.mean, q.root, form=q.form, jitter=basis.jitter, mean=mean)

    def factor(self) -> Array:
        """Cholesky factor L of k(Z, Z) with white noise and jitter, shape (M, M)."""
        L, _ = cholesky(self.kernel.gram(self.Z), what="K_mm of the posterior", jitter=self.jitter)
        return L

    def covariance(self) -> Array:
        """Whitened covariance S_w, shape (M, M)."""
        if self.form == "covariance":
            return self.root @ self.root.T
        inverse = inverse_lower(self.root)
        return inverse.T @ inverse

    def marginals(self) -> Marginals:
        """Prepare the marginals at new inputs; O(M³)."""
        return Marginals(self)

    def packed(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """What JSON can hold, and the arrays; ``unpacked`` reads them."""
        described = {
            "kernel": self.kernel.spec(),
            "form": self.form,
            "jitter": float(self.jitter),
            "mean": float(self.mean),
        }
        return described, {"Z": self.Z, "m_w": self.m_w, "root": self.root}

    @classmethod
    def unpacked(cls, described: Mapping[str, Any], arrays: Mapping[str, Array]) -> Self:
        """The latent function that ``packed`` gave, the same to the bit."""
        return cls(
            kernel=kernel_from_spec(described["kernel"]),
            Z=arrays["Z"],
            m_w=arrays["m_w"],
            root=arrays["root"],
            form=described["form"],
            jitter=described["jitter"],
            mean=described["mean"],
        )


class Marginals:
    """Mean and variance of a latent function at new inputs, for many rows."""

    def __init__(self, latent: Latent) -> None:
        L = latent.factor()
        M = L.shape[0]
        eigenvalues, U = eigh(np.eye(M) - latent.covariance())
        keep = np.abs(eigenvalues) > _NEGLIGIBLE
        eigenvalues, U = eigenvalues[keep], U[:, keep]
        self._split = int((eigenvalues < 0).sum())  # eigh sorts: where q is wider than the prior comes first
        self._V = trsm(L, np.asfortranarray(U * np.sqrt(np.abs(eigenvalues))), trans=True)
        self._alpha = trsv(L, latent.m_w, trans=True)
        self._kernel = latent.kernel
        self._features = latent.kernel.bind(latent.Z)
        self._mean = latent.mean
        self._P = np.empty((0, self._V.shape[1]))

    def __call__(self, X: Array) -> tuple[Array, Array]:
        """Latent mean and variance, each of shape (b,), at inputs X (b, d)."""
        if self._P.shape[0] != X.shape[0]:
            self._P = np.empty((X.shape[0], self._V.shape[1]))
        k = self._features.cross(X)
        P = np.matmul(k, self._V, out=self._P)
        mean = k @ self._alpha
        mean += self._mean
        narrower = P[:, self._split :]
        var = self._kernel.diag(X)
        var -= np.vecdot(narrower, narrower)
        if self._split:
            wider = P[:, : self._split]
            var += np.vecdot(wider, wider)
        return mean, np.maximum(var, 0.0, out=var)  # rounding where x lies on an inducing input
