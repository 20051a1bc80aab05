"""The reference posteriors: problems with a fixed kernel, and the stored moments of their exact posteriors.

A problem is a split of a data set that needs no network, scaled as always, with a squared exponential without white
noise. For each of the two links its posterior stands in ``datasets/truth/PROBLEM-LINK.npz`` (``gpbench/_data/truth`` in
a wheel): moments of f and probabilities at training and test rows, the evidence, what they were computed with and how
precise they are. :mod:`gpbench.bench.truth.make` made them.
"""

from __future__ import annotations

import json
import zipfile
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from gpbench.config import shipped
from gpbench.errors import DataError, unknown_name
from gpbench.leases import replacing
from gpbench.model.kernels import make_kernel

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from gpbench.model.kernels import Kernel
    from gpbench.model.rows import Array

__all__ = [
    "LINKS",
    "PARTS",
    "PROBLEMS",
    "Problem",
    "Reference",
    "find_reference",
    "folder",
    "problem",
    "read_reference",
]

FORMAT = 1
LINKS = ("logit", "probit")
PARTS = ("train", "test")
KERNEL = "se"
SEED = 0
"""Of the split."""


@dataclass(frozen=True, kw_only=True)
class Problem:
    """What there is a reference posterior of.

    Attributes
    ----------
    name, title : str
    dataset, split : str
        As for ``gpbench run``; the first split of the protocol, seed 0.
    lengthscale, variance : float
        Of the squared exponential on standardised inputs.
    """

    name: str
    title: str
    dataset: str
    split: str
    lengthscale: float
    variance: float

    def kernel(self, d: int) -> Kernel:
        """The kernel for d inputs."""
        return make_kernel(KERNEL, d, variance=self.variance, lengthscale=self.lengthscale, noise=0.0)

    @property
    def settings(self) -> dict[str, Any]:
        """What a method must be set to, of the settings that it has."""
        return {
            "kernel": KERNEL,
            "lengthscale": self.lengthscale,
            "variance": self.variance,
            "noise": 0.0,
            "hyperparameters": "fixed",
        }


PROBLEMS: dict[str, Problem] = {
    each.name: each
    for each in (
        Problem(
            name="breast",
            title="tumours, 400 rows, 30 inputs: nearly separable",
            dataset="breast-cancer-wisconsin",
            split="holdout:169*1",
            lengthscale=5.5,
            variance=10.0,
        ),
        Problem(
            name="digits35",
            title="three against five, 200 rows, 64 inputs: separable",
            dataset="digits-3-5",
            split="holdout:165*1",
            lengthscale=8.0,
            variance=10.0,
        ),
        Problem(
            name="odd-even",
            title="odd against even digits, 500 rows, 64 inputs",
            dataset="digits-odd-even",
            split="holdout:1297*1",
            lengthscale=8.0,
            variance=4.0,
        ),
        Problem(
            name="twonorm",
            title="two normals, 300 rows, 20 inputs: linear boundary",
            dataset="twonorm-gen:800",
            split="holdout:500*1",
            lengthscale=9.0,
            variance=9.0,
        ),
        Problem(
            name="ringnorm",
            title="a normal inside another, 400 rows, 20 inputs",
            dataset="ringnorm-gen:900",
            split="holdout:500*1",
            lengthscale=4.5,
            variance=9.0,
        ),
        Problem(
            name="draw2",
            title="a draw of the prior, 500 rows, 2 inputs: noisy, short length scale",
            dataset="gpdraw2-gen:1000",
            split="holdout:500*1",
            lengthscale=0.5,
            variance=9.0,
        ),
        Problem(
            name="draw8",
            title="a draw of the prior, 600 rows, 8 inputs: noisy",
            dataset="gpdraw8-gen:1100",
            split="holdout:500*1",
            lengthscale=2.0,
            variance=4.0,
        ),
        Problem(
            name="draw8-wide",
            title="the same draw, 300 rows, another kernel: smoother and of large variance",
            dataset="gpdraw8-gen:800",
            split="holdout:500*1",
            lengthscale=4.0,
            variance=25.0,
        ),
    )
}
"""Problems by name."""


@dataclass(frozen=True, eq=False)
class Reference:
    """A stored posterior.

    Attributes
    ----------
    about : mapping
        Problem, link, data set with its checksum, split, kernel, jitter; how it was sampled; how precise it is.
    moments : mapping
        Part (``train``, ``test``) -> arrays ``mean``, ``sd`` of f and ``probability`` of the second class, each (n,).
    """

    about: Mapping[str, Any]
    moments: Mapping[str, Mapping[str, Array]]

    @property
    def problem(self) -> Problem:
        """What it is of."""
        return PROBLEMS[self.about["problem"]]

    @property
    def link(self) -> str:
        """The likelihood's name."""
        return str(self.about["link"])

    @property
    def log_evidence(self) -> float:
        """Evidence, log p(y) (nats)."""
        return float(self.about["log_evidence"])


def folder() -> Path:
    """The folder of the stored posteriors: in a checkout, or in the wheel."""
    return shipped("truth", parent="datasets")


def problem(name: str) -> Problem:
    """A problem by name.

    Raises
    ------
    UsageError
        There is none.
    """
    if name not in PROBLEMS:
        raise unknown_name("problem", name, PROBLEMS)
    return PROBLEMS[name]


def write_reference(path: Path, found: Reference) -> None:
    """Write a posterior; moments as float32, whose rounding is far below their Monte Carlo error."""
    about = json.dumps({"format": FORMAT, **found.about}, sort_keys=True, allow_nan=False)
    arrays: dict[str, npt.NDArray[Any]] = {"about": np.frombuffer(about.encode("utf-8"), dtype=np.uint8)}
    for part, moments in found.moments.items():
        arrays |= {f"{part}/{name}": np.asarray(values, dtype=np.float32) for name, values in moments.items()}
    with replacing(path) as partial, partial.open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, **arrays)


@cache
def read_reference(name: str, link: str) -> Reference:
    """The stored posterior of a problem under a link.

    Raises
    ------
    UsageError
        There is no such problem.
    DataError
        Its file is missing or broken.
    """
    path = folder() / f"{problem(name).name}-{link}.npz"
    try:
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
            about = json.loads(file["about"].tobytes())
            moments = {
                part: {key: file[f"{part}/{key}"].astype(np.float64) for key in ("mean", "sd", "probability")}
                for part in PARTS
            }
    except (OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise DataError(f"{path} holds no reference posterior: {type(error).__name__}: {error}") from error
    if about.pop("format") != FORMAT:
        raise DataError(f"{path} is of another format than {FORMAT}, which this gpbench reads")
    return Reference(about, moments)


def find_reference(*, dataset: str, split: str, link: str, kernel: Mapping[str, float]) -> Reference | None:
    """The reference of a data set, split, link and kernel; None where there is none.

    Parameters
    ----------
    dataset, split, link : str
        As a result names them.
    kernel : mapping
        Hyper-parameters by name.
    """
    for each in PROBLEMS.values():
        if (each.dataset, each.split) != (dataset, split) or link not in LINKS:
            continue
        found = read_reference(each.name, link)
        wanted = found.about["kernel"]
        if wanted.keys() == kernel.keys() and np.allclose(
            [wanted[name] for name in wanted], [kernel[name] for name in wanted], rtol=1e-9
        ):
            return found
    return None
