"""A trained model with all that prediction on raw rows needs, in one file without pickles; or out of a stored cell.

======================  ========================================================================================
in the file (an npz)    meaning
======================  ========================================================================================
``model``               JSON: format, gpbench's version, method with its version and settings, seed, scaling, rows, ...
``preparation``         JSON: columns by name, encodings, what missing values become, means, scales, class names
``posterior.*``         the posterior, as everywhere
======================  ========================================================================================

A cell's KEY.npz holds the last two, and its JSON the first.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import zipfile
import zlib
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

import gpbench
from gpbench.bench.expand import check_inducing
from gpbench.bench.fitting import check_finite, fit_rows
from gpbench.bench.methods import methods
from gpbench.data.catalogue import task_of
from gpbench.data.record import Preparation, fitted
from gpbench.data.scaling import ScaledRows
from gpbench.errors import DataError, StoreError, UsageError, reason
from gpbench.model.posterior import load_posterior, write_npz

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from gpbench.bench.choices import Choice
    from gpbench.bench.store import Store
    from gpbench.data.dataset import Dataset
    from gpbench.data.newrows import NewRows
    from gpbench.model.posterior import Predictor
    from gpbench.model.rows import Array, Labels

__all__ = ["FORMAT", "Predicted", "Trained", "check_place", "trained_in", "trained_of"]

FORMAT = 1
"""Version of the file."""
_NAMES = ("method", "version", "dataset", "seed", "gpbench", "settings", "about")
_ZIP = b"PK"
_NOT_WHOLE = (EOFError, ValueError, zipfile.BadZipFile, zlib.error, NotImplementedError)
"""What numpy raises for a file that is no npz, or whose bytes are not what was written."""
_KEY = re.compile(r"[0-9a-f]{6,20}")


@dataclass(frozen=True)
class Predicted:
    """Predictions for new rows.

    Attributes
    ----------
    point : (n,)
        Names of the most probable classes, or predictive means of counts.
    probabilities : (n, C) or None
        In the order of the class names; None for counts.
    latent : pair of (n, F) or None
        Mean and variance of the latent functions, where they were asked for.
    """

    point: Labels
    probabilities: Array | None
    latent: tuple[Array, Array] | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Trained:
    """A model.

    Attributes
    ----------
    method : str
    version : int
        Of the method.
    settings : mapping
    dataset : str
        The id of the rows that it was trained on.
    seed : int
    gpbench : str
        Version that trained it.
    about : mapping
        Rows, how training ended, seconds: as JSON can hold it.
    preparation : Preparation
    posterior : Predictor
        In prepared inputs.
    """

    method: str
    version: int
    settings: Mapping[str, Any]
    dataset: str
    seed: int
    gpbench: str
    about: Mapping[str, Any]
    preparation: Preparation
    posterior: Predictor

    @classmethod
    def on(
        cls,
        dataset: Dataset,
        choice: Choice,
        *,
        scaling: str,
        seed: int,
        seconds: float | None = None,
        threads: int = 1,
    ) -> Self:
        """Train on all rows of a data set; see :func:`gpbench.bench.fitting.fit_rows`.

        Raises
        ------
        UsageError
            The method cannot do its task, or there are fewer rows than inducing points.
        GpbenchError
            From the scheme.
        """
        for each in (choice, choice.origin):
            if each is not None:
                check_inducing(each, dataset.id, rows=dataset.n)
        rows = np.arange(dataset.n, dtype=np.int64)
        preparation = fitted(dataset, rows=rows, scaling=scaling)
        assert preparation.scaling is not None
        fit = fit_rows(
            choice,
            ScaledRows(dataset.X, rows, preparation.scaling).array(),
            np.asarray(dataset.y),
            task=dataset.task,
            classes=len(dataset.classes),
            seed=seed,
            seconds=seconds,
            threads=threads,
        )
        return cls(
            method=choice.method.id,
            version=choice.method.version_for(dataset.task),
            settings=dict(choice.settings),
            dataset=dataset.id,
            seed=seed,
            gpbench=gpbench.__version__,
            about={
                "task": dataset.task,
                "rows": dataset.n,
                "scaling": scaling,
                "stopped_by": "seconds" if fit.stopped_by == "on_step" else fit.stopped_by,
                "iterations": fit.iterations,
                "bound": fit.bound,
            },
            preparation=preparation,
            posterior=fit.posterior,
        )

    def predict(self, rows: NewRows, *, latent: bool = False) -> Predicted:
        """Predict new rows, prepared by :attr:`preparation`.

        Raises
        ------
        UsageError
            Latent values of a model that has none.
        NumericalError
            What is predicted of a row is not finite, as of inputs whose squares overflow; names its line.
        """
        if latent and not hasattr(self.posterior, "latent"):
            raise UsageError(f"method {self.method} has no latent functions")
        found = self.posterior.predict(rows.X)
        values = self.posterior.latent(rows.X) if latent else None  # type: ignore[attr-defined]  # seen above
        check_finite(found.values, *(values or ()), row=lambda number: f"line {rows.numbers[number]} of the new rows")
        if found.probabilities is None:
            return Predicted(found.point, None, values)
        return Predicted(np.array(self.preparation.classes)[found.point], found.probabilities, values)

    def save(self, path: Path) -> None:
        """Write the file, whole or not at all.

        Raises
        ------
        StoreError
            It cannot be written, of which :func:`check_place` tells beforehand.
        """
        meta = {"format": FORMAT, **{name: getattr(self, name) for name in _NAMES}}
        arrays = dict(self.posterior.arrays())
        arrays["model"] = np.array(json.dumps(meta, allow_nan=False))
        arrays["preparation"] = np.array(json.dumps(self.preparation.to_json(), allow_nan=False))
        try:
            write_npz(path, arrays)
        except OSError as error:
            raise StoreError(f"cannot write {path}: {reason(error)}") from error

    @property
    def inputs(self) -> int:
        """Number of inputs, those that did not vary left out."""
        assert self.preparation.scaling is not None
        return self.preparation.scaling.width

    @property
    def notes(self) -> list[str]:
        """What its user should know: the method has changed since."""
        now = methods().get(self.method)
        task = self.about.get("task") or task_of(self.dataset)
        if now is None or now.is_current(self.version, task):
            return []
        own = f"version {self.version} of {self.method} (gpbench {self.gpbench})"
        return [f"trained by {own}, which is now at version {now.latest}; it predicts as it did"]


def check_place(path: Path) -> None:
    """See that a model can be written to a path, before it is trained, by writing a file beside it as that will be.

    Raises
    ------
    UsageError
        A folder is there, or what is no plain file.
    StoreError
        The folder takes no file, or none whose name is so long.
    """
    mark = secrets.token_hex(8)
    probe = path.with_name(mark.ljust(len(os.fsencode(path.name)), "0"))  # a longer name could be refused, too
    try:
        if path.exists() and not path.is_file():
            found = "a folder" if path.is_dir() else "no plain file"
            raise UsageError(f"--output expects the name of a file for the model; {path} is {found}")
        write_npz(probe, {})
        probe.unlink()
    except OSError as error:
        with contextlib.suppress(OSError):
            for left in path.parent.glob(f"*{mark}*"):
                left.unlink()
        raise StoreError(f"cannot write {path}: {reason(error)}") from error


def trained_of(path: Path) -> Trained:
    """Read a model's file.

    Raises
    ------
    DataError
        It is none, is damaged, or needs another gpbench or a package that is not installed, which the message names.
    """
    texts = _texts(path, ("model", "preparation"))
    if texts is None or "model" not in texts:
        raise DataError(_no_model(path))
    try:
        meta = json.loads(texts["model"])
        version, writer = meta["format"], meta["gpbench"]
        if version == FORMAT:
            known = {
                name: meta[name] for name in ("method", "version", "settings", "dataset", "seed", "gpbench", "about")
            }
            preparation = Preparation.from_json(json.loads(texts["preparation"]))
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path} is a model that is damaged: {type(error).__name__}: {error}") from error
    if version != FORMAT:
        raise DataError(
            f"{path} holds a model of format {version}, written by gpbench {writer}; gpbench {gpbench.__version__} "
            f"reads format {FORMAT}"
        )
    return Trained(**known, preparation=preparation, posterior=_posterior(path, known["method"]))


def trained_in(store: Store, key: str) -> Trained:
    """The model of a stored cell.

    Parameters
    ----------
    store : Store
    key : str
        Of the cell, or its first digits, six at least.

    Raises
    ------
    UsageError
        No cell, or several, of that key.
    StoreError
        The cell has not ended well, or is damaged.
    DataError
        It was stored without what raw rows need.
    """
    if not _KEY.fullmatch(key):
        raise UsageError(f"expected a model's file, or the key of a cell in {store.folder}; got {key!r}")
    keys = sorted(path.stem for path in store.folder.glob(f"{key}*.json"))
    if len(keys) != 1:
        words = f"{len(keys)} cells have keys that begin so" if keys else "there is none"
        raise UsageError(f"expected the key of one cell in {store.folder}; {words}: {key!r}")
    result = store.get(keys[0])
    if result is None:
        raise StoreError("; ".join(store.problems) or f"cell {keys[0]} cannot be read")
    if not result.finished:
        raise StoreError(f"cell {keys[0]} left no model: it ended as {result.status}")
    path = store.folder / f"{keys[0]}.npz"
    texts = _texts(path, ("preparation",))
    if texts is None:
        raise DataError(f"{path} is damaged or cut short; run that cell again with --force")
    if "preparation" not in texts:
        raise DataError(f"{path} was stored without what raw rows need; run that cell again with --force")
    return Trained(
        method=result.method,
        version=result.version,
        settings=dict(result.settings),
        dataset=result.dataset,
        seed=result.seed,
        gpbench=str(result.provenance.get("gpbench", "of an unknown version")),
        about={"split": asdict(result.split), "scaling": result.scaling, "stopped_by": result.stopped_by},
        preparation=Preparation.from_json(json.loads(texts["preparation"])),
        posterior=_posterior(path, result.method),
    )


def _posterior(path: Path, name: str) -> Predictor:
    """The posterior, once the method's module has registered its kind."""
    found = methods().get(name)
    if found is not None:
        found.load()
    try:
        return load_posterior(path)
    except DataError as error:
        if found is None:
            raise DataError(f"{path} needs the method {name}, of a package that is not installed: {error}") from error
        raise


def _texts(path: Path, names: tuple[str, ...]) -> dict[str, str] | None:
    """Texts of an npz file by their names; None where it is none, or is not whole."""
    try:
        with path.open("rb") as stream:  # what the system refuses is said in its words
            found = np.load(stream, allow_pickle=False)
            if not isinstance(found, np.lib.npyio.NpzFile):
                return None
            with found:
                return {name: str(found[name]) for name in names if name in found.files}
    except _NOT_WHOLE:
        return None
    except OSError as error:
        raise DataError(f"{path} cannot be read: {reason(error)}") from error


def _no_model(path: Path) -> str:
    """Why a file is no model, in words for whoever gave another file, or a part of one."""
    words = f"{path} is no model that `gpbench fit` wrote"
    with path.open("rb") as stream:
        begun = stream.read(len(_ZIP)) == _ZIP
    if not begun:
        return f"{words}; the model comes first, then the new rows: gpbench predict MODEL NEW_FILE"
    return f"{words}, or one that is damaged or was cut short, as a copy that broke off is"
