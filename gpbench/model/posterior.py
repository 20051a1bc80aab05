"""The posterior that every scheme ends in, and prediction, which is written once.

A scheme finds q(u) for each latent function; this module turns it into predictive probabilities, scores them, and saves
and loads them.

:class:`Latent` is one latent function: its kernel, inducing inputs and q(u).

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

A saved posterior is an npz file of arrays, and one JSON text for the rest; nothing is ever pickled or unpickled. Keys
begin with ``posterior.``, so that other arrays (predicted probabilities) can lie in the same file.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np
import numpy.typing as npt
from scipy.linalg import eigh

from gpbench.errors import DataError, GpbenchError, NumericalError, UsageError
from gpbench.model.kernels import kernel_from_spec
from gpbench.model.likelihoods import Likelihood, Prediction, Score, likelihood_from_spec
from gpbench.model.linalg import cholesky, inverse_lower, trsm, trsv

if TYPE_CHECKING:
    from gpbench.model.basis import Basis
    from gpbench.model.gaussian import Form, GaussianQ
    from gpbench.model.kernels import Kernel
    from gpbench.model.rows import Array, Labels, Rows

__all__ = [
    "META",
    "Latent",
    "Marginals",
    "Posterior",
    "Predictor",
    "check_columns",
    "check_scored",
    "load_posterior",
    "meta_of",
    "npz_arrays",
    "packed",
    "register_posterior",
    "unpack_latents",
    "write_npz",
]

BLOCK = 512
"""Rows predicted at a time: kernel values and their projections stay in the cache, calls cost little (measured)."""

_NEGLIGIBLE = 1e-14

_PREFIX = "posterior."
META = _PREFIX + "meta"
"""The array of an npz file that holds the JSON part."""
_FORMAT = 1

Arrays = dict[str, npt.NDArray[Any]]


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


class Predictor(Protocol):
    """What the harness needs of a posterior; other models than Gaussian processes can offer it too."""

    def predict(self, X: Rows, /) -> Prediction:
        """Predictive distribution of each row."""

    def score(self, X: Rows, y: Labels, /) -> Score:
        """Log predictive probability and error of observed targets, and the predictive values."""

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Arrays that ``load_posterior`` reads, to be saved together with others."""

    def save(self, path: Path, /) -> None:
        """Write an npz file that ``load_posterior`` reads."""


@dataclass(frozen=True, eq=False)
class Posterior:
    """Gaussian posteriors of the latent functions with a likelihood.

    Parameters
    ----------
    latents : tuple of Latent
        One for each latent function, F in all.
    likelihood : Likelihood
        p(y | f).
    classes : int
        Number of classes of the data set, 0 for counts.

    Raises
    ------
    UsageError
        The number of latent functions is not what the likelihood needs.
    """

    latents: tuple[Latent, ...]
    likelihood: Likelihood
    classes: int

    def __post_init__(self) -> None:
        needed = self.likelihood.n_latent(self.classes)
        if len(self.latents) != needed:
            raise UsageError(
                f"likelihood {self.likelihood.name} with {self.classes} classes needs {needed} latent functions; "
                f"got {len(self.latents)}"
            )

    @cached_property
    def _marginals(self) -> tuple[Marginals, ...]:
        return tuple(latent.marginals() for latent in self.latents)

    def latent(self, X: Rows) -> tuple[Array, Array]:
        """Mean and variance of each latent function.

        Parameters
        ----------
        X : (n, d)
            Inputs; read block by block.

        Returns
        -------
        mean, var : (n, F)
            Of q(f(x)), white noise included in the variance.

        Raises
        ------
        UsageError
            X has another number of columns than the inducing inputs.
        """
        n, F = len(X), len(self.latents)
        check_columns(X, self.latents[0])
        mean, var = np.empty((n, F)), np.empty((n, F))
        for rows in _blocks(n):
            block = X[rows]
            for index, marginals in enumerate(self._marginals):
                mean[rows, index], var[rows, index] = marginals(block)
        return mean, var

    def predict(self, X: Rows) -> Prediction:
        """Predictive distribution of each row of X (n, d)."""
        return self.likelihood.predict(*self.latent(X))

    def score(self, X: Rows, y: Labels) -> Score:
        """Log predictive probability (nats) and error of the targets y (n,) of X (n, d), and the predictive values.

        Raises
        ------
        DataError
            A target is out of range, or there are not as many as rows.
        """
        check_scored(self, X, y)
        return self.likelihood.score(y, *self.latent(X))

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Arrays that :func:`load_posterior` reads, to be saved together with others."""
        return npz_arrays("gp", *packed(self))

    def save(self, path: Path) -> None:
        """Write an npz file that :func:`load_posterior` reads; the loaded one predicts the same to the bit."""
        write_npz(path, self.arrays())


Build = Callable[[Mapping[str, Any], Mapping[str, npt.NDArray[Any]]], Predictor]


class Parts(Protocol):
    """What every posterior of latent functions is made of, whatever it predicts from."""

    @property
    def latents(self) -> tuple[Latent, ...]:
        """The latent functions."""

    @property
    def likelihood(self) -> Likelihood:
        """p(y | f)."""

    @property
    def classes(self) -> int:
        """Number of classes of the data set, 0 for counts."""


def packed(posterior: Parts) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    """A posterior as what JSON can hold, and arrays whose names begin with the latent function's number."""
    described: list[dict[str, Any]] = []
    arrays: Arrays = {}
    for index, latent in enumerate(posterior.latents):
        about, parts = latent.packed()
        described.append(about)
        arrays.update({f"{index}.{name}": values for name, values in parts.items()})
    meta = {
        "likelihood": posterior.likelihood.spec(),
        "classes": posterior.classes,
        "latents": described,
    }
    return meta, arrays


def unpack_latents(
    described: Sequence[Mapping[str, Any]], arrays: Mapping[str, npt.NDArray[Any]]
) -> tuple[Latent, ...]:
    """The latent functions that :func:`packed` took."""
    names = ("Z", "m_w", "root")
    return tuple(
        Latent.unpacked(meta, {name: arrays[f"{index}.{name}"] for name in names})
        for index, meta in enumerate(described)
    )


def _build_gp(meta: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> Posterior:
    latents = unpack_latents(meta["latents"], arrays)
    return Posterior(latents, likelihood_from_spec(meta["likelihood"]), classes=meta["classes"])


_BUILDERS: dict[str, Build] = {"gp": _build_gp}
_OWN = {"gp-sampled": "gpbench.model.sampled"}
"""Kinds of gpbench's own whose module registers them; it is imported when one is loaded."""


def register_posterior(kind: str, build: Build) -> None:
    """Make :func:`load_posterior` know another kind of model.

    Parameters
    ----------
    kind : str
        The kind that the model's ``arrays()`` gives to :func:`npz_arrays`.
    build : callable
        Builds the model from the JSON part and the arrays.

    Raises
    ------
    UsageError
        Another builder has that kind already.
    """
    if _BUILDERS.setdefault(kind, build) is not build:
        raise UsageError(f"a builder of posteriors of kind {kind!r} exists already")


def load_posterior(path: Path) -> Predictor:
    """Load what ``save`` wrote.

    Parameters
    ----------
    path : Path
        An npz file; arrays that are no part of the posterior are left alone.

    Raises
    ------
    DataError
        The file cannot be read, is broken, holds pickles, or holds no posterior of a known kind (a scheme with a kind
        of its own registers it when its module is imported).
    """
    kind, meta, arrays = _read_npz(path)
    if kind in _OWN:
        import_module(_OWN[kind])
    build = _BUILDERS.get(kind)
    if build is None:
        raise DataError(f"{path} holds a posterior of kind {kind!r}; known kinds: {', '.join(sorted(_BUILDERS))}")
    try:
        return build(meta, arrays)
    except (GpbenchError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise DataError(f"{path} holds a broken posterior: {type(error).__name__}: {error}") from error


def npz_arrays(kind: str, meta: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> Arrays:
    """Arrays that hold a posterior, ready for ``numpy.savez``.

    Parameters
    ----------
    kind : str
        What the reader must build: ``"gp"`` for :class:`Posterior`.
    meta : mapping
        What JSON can hold (no NaN).
    arrays : mapping
        Numeric arrays.

    Raises
    ------
    UsageError
        ``meta`` is not what JSON can hold.
    """
    try:
        text = json.dumps({"format": _FORMAT, "kind": kind, **meta}, sort_keys=True, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise UsageError(f"a posterior's parameters must be what JSON can hold: {error}") from None
    return {
        META: np.frombuffer(text.encode(), dtype=np.uint8),
        **{_PREFIX + name: values for name, values in arrays.items()},
    }


def meta_of(arrays: Mapping[str, npt.NDArray[Any]]) -> dict[str, Any]:
    """The JSON part of a packed posterior; empty where there is none.

    Parameters
    ----------
    arrays : mapping
        With :data:`META` among them.
    """
    found: dict[str, Any] = json.loads(arrays[META].tobytes()) if META in arrays else {}
    return found


def write_npz(path: Path, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    """Write an npz file, whole or not at all: under a name of its own, which is then put in the path's place.

    Parameters
    ----------
    path : Path
        Its folder exists.
    arrays : mapping
        Numeric arrays.

    Raises
    ------
    OSError
        It cannot be written; nothing half-made is left, and what stood there before stands there still.
    """
    mine = np.random.SeedSequence().generate_state(4).tobytes().hex()  # no other process's, on any machine
    unfinished = path.with_name(f".{mine}.unfinished")
    try:
        with unfinished.open("wb") as file:
            np.savez(file, allow_pickle=False, **dict(arrays))
        unfinished.replace(path)
    except BaseException:
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)
        raise


def _read_npz(path: Path) -> tuple[str, dict[str, Any], Arrays]:
    """Kind, JSON part and arrays of a posterior in an npz file.

    Raises
    ------
    DataError
        The file cannot be read, is broken, holds pickles, or holds no posterior.
    """
    try:
        with Path(path).open("rb") as stream:  # numpy leaves a file open that it cannot read
            found = np.load(stream, allow_pickle=False)
            if not isinstance(found, np.lib.npyio.NpzFile):
                raise DataError(f"{path} holds no saved posterior: expected an npz file, got a single array")
            arrays = {name.removeprefix(_PREFIX): found[name] for name in found.files if name.startswith(_PREFIX)}
        meta = json.loads(arrays.pop("meta").tobytes())
        kind, version = meta.pop("kind"), meta.pop("format")
    except (OSError, EOFError, ValueError, KeyError, AttributeError, zipfile.BadZipFile) as error:
        raise DataError(f"{path} holds no saved posterior: {type(error).__name__}: {error}") from error
    if version != _FORMAT:
        raise DataError(f"{path} holds a posterior of format {version}; this gpbench reads format {_FORMAT}")
    return str(kind), meta, arrays


def check_scored(posterior: Parts, X: Rows, y: Labels) -> None:
    """See that there is a target in range for each row.

    Raises
    ------
    DataError
        There is not.
    """
    if len(y) != len(X):
        raise DataError(f"expected one target for each of {len(X)} rows; got {len(y)}")
    posterior.likelihood.check_targets(y, posterior.classes)


def check_columns(X: Rows, latent: Latent) -> None:
    """Check that rows (n, d) have as many columns as the inducing inputs.

    Raises
    ------
    UsageError
        They have not.
    """
    d = latent.Z.shape[1]
    if len(X.shape) != 2 or X.shape[1] != d:
        raise UsageError(f"expected rows with {d} columns, as in training; got shape {tuple(X.shape)}")


def _blocks(n: int) -> Iterator[slice]:
    for start in range(0, n, BLOCK):
        yield slice(start, min(start + BLOCK, n))
