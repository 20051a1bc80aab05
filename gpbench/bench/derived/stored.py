"""Arrays that a plan's picture needs beyond its cells, stored beside them in the file ``STEP-KEY.npz``.

``gpbench reproduce`` computes them (:func:`derive`), everything else reads them (:func:`stored_arrays`) and says what
is missing. KEY is a hash of all that they depend on: the step and its version, the keys of the plan's finished cells,
the options of [figure], and for a step without cells the plan's seed and the versions of the methods whose mathematics
it runs. Cells that a clock ended can come out otherwise when they are run again, under the same key. So the file names
the content of each cell's arrays too, and what was made of others is computed anew.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from gpbench.bench.cell import canonical
from gpbench.bench.code import code
from gpbench.bench.methods import methods
from gpbench.bench.reference import reference_file
from gpbench.bench.store import Store
from gpbench.errors import NotComputed, StoreError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from gpbench.bench.plan.cells import PlanCells, PlanResult
    from gpbench.bench.plan.plan import Plan
    from gpbench.config import Config

    Arrays = Mapping[str, npt.NDArray[Any]]
    Compute = Callable[[PlanCells, Mapping[str, Any], Config], Arrays]

__all__ = ["STEPS", "Step", "derive", "publish_arrays", "step_of", "stored_arrays"]

#: Version of the files' form; part of every key.
_FORMAT = 1
#: The array that says in JSON what the others are and what they were made of.
_ABOUT = "about"


@dataclass(frozen=True, kw_only=True)
class Step:
    """What is computed for a rendering.

    Attributes
    ----------
    name : str
        Of the step, and the beginning of its files' names.
    what : str
        Of the plan, in words for messages: ``"the grids of its panels"``.
    function : str
        ``"module:function"``; the function gets a plan with its cells, the options and the configuration, and returns
        named arrays. It is imported when it is called, since it opens data and posteriors.
    version : int
        Raised when its numbers change.
    option : str or None
        The option of [figure] that asks for it; None where every plan of the rendering needs it.
    defaults, quick : mapping
        Options that [figure] may leave out, and the largest values of a quick form.
    methods : tuple of str
        Whose mathematics it runs where no cells are behind it.
    """

    name: str
    what: str
    function: str
    version: int = 1
    option: str | None = None
    defaults: Mapping[str, Any] = field(default_factory=dict)
    quick: Mapping[str, Any] = field(default_factory=dict)
    methods: tuple[str, ...] = ()

    def options(self, plan: Plan) -> dict[str, Any]:
        """The options of [figure], complete and with the plan's seed.

        Raises
        ------
        UsageError
            One is of another kind than its default, or nothing that JSON can hold.
        """
        found = {**self.defaults, **plan.figure}
        for name, default in self.defaults.items():
            if _kind(found[name]) != _kind(default):
                raise UsageError(
                    f"{plan.path}: [figure]: {name} must be {_kind(default)}, such as {default}; got {found[name]!r}"
                )
        if plan.reduction.words:
            found |= {name: min(found[name], most) for name, most in self.quick.items()}
        found |= {"seed": plan.seed} if self.methods else {}
        try:
            canonical(found)
        except (TypeError, ValueError):
            raise UsageError(f"{plan.path}: [figure] must hold texts, numbers and lists; got {plan.figure}") from None
        return found

    def load(self) -> Compute:
        """The function."""
        module, _, name = self.function.partition(":")
        found: Compute = getattr(import_module(module), name)
        return found


#: Rendering -> its step.
STEPS = {
    "panels": Step(
        name="panels",
        what="the grids of its panels",
        function="gpbench.bench.derived.steps:panels",
        version=2,
    ),
    "scatter": Step(
        name="agreement",
        what="the predictions that it sets against one another",
        function="gpbench.bench.derived.steps:agreement",
        option="against",
    ),
    "curves": Step(
        name="hyperparameters",
        what="the hyper-parameters that its cells ended with",
        function="gpbench.bench.derived.steps:hyperparameters",
        version=2,
        option="hyperparameters",
    ),
    "truth": Step(
        name="truth",
        what="the distances from the reference posteriors",
        function="gpbench.bench.derived.steps:truth",
    ),
    "logged": Step(
        name="logged",
        what="the numbers as they are logged",
        function="gpbench.bench.derived.steps:logged",
        version=3,
    ),
    "contraction": Step(
        name="contraction",
        what="the distances before and after the operator",
        function="gpbench.bench.derived.steps:contraction",
        defaults={
            "sizes": [10, 25, 50, 100],
            "rows": 1000,
            "inputs": 10,
            "repeats": 500,
            "kernels": ["se"],
            "slopes": [1.0],
            "edges": [[-1.0, 0.0, 1.0]],
        },
        quick={"repeats": 3},
        methods=("gvi-fixed-point",),
    ),
    "factors": Step(
        name="factors",
        what="its factors and sites",
        function="gpbench.bench.derived.steps:factors",
        defaults={"prior_variance": 4.0, "centres": [-2.0, -0.5, 1.0, 3.0], "widths": [0.4, 1.0, 0.3, -0.8]},
        methods=("ep-mgpc", "sep-mgpc"),
    ),
}


def step_of(plan: Plan) -> Step | None:
    """The step whose arrays a plan's picture needs; None where cells are enough."""
    step = STEPS.get(plan.render)
    if step is None or step.option is None:
        return step
    return step if plan.figure.get(step.option, False) is not False else None


def stored_arrays(found: PlanCells) -> dict[str, npt.NDArray[Any]]:
    """The arrays of a plan's step; nothing is computed.

    Parameters
    ----------
    found : PlanCells
        Of a plan that has a step.

    Raises
    ------
    NotComputed
        They are not stored, or were made of other results of the same cells.
    """
    step = step_of(found.plan)
    assert step is not None, found.plan.render
    name = _name(step, found)
    published = reference_file(found.plan.id).with_suffix(".npz")
    here = (found.store.folder / f"{name}.npz").exists()
    if not here and not published.exists():
        raise NotComputed(f"{found.plan.id}: {step.what} are not computed yet")
    try:
        arrays = found.store.arrays(name) if here else Store(published.parent).arrays(published.stem)
        about = json.loads(arrays.pop(_ABOUT).tobytes())
        cells, whose = about["cells"], about["name"]
    except (StoreError, KeyError, ValueError) as error:
        raise NotComputed(f"{found.plan.id}: {step.what} are to be computed again: {error}") from error
    if whose != name:
        raise NotComputed(f"{found.plan.id}: {step.what} are not computed yet")
    if cells != _contents(found):
        raise NotComputed(f"{found.plan.id}: {step.what} were computed from earlier runs of its cells")
    return arrays


def derive(found: PlanCells, config: Config, *, force: bool = False) -> None:
    """Compute and store what a plan's picture needs, where it needs anything and that is not stored.

    Parameters
    ----------
    found : PlanCells
    config : Config
    force : bool
        Compute in any case.

    Raises
    ------
    UsageError
        [figure] holds what cannot be computed.
    DataError
        A data set or a posterior cannot be had.
    StoreError
        The store cannot be written.
    """
    step = step_of(found.plan)
    if step is None or not (step.methods or _finished(found)):  # without cells the renderer says what is wrong
        return
    name = _name(step, found)
    with found.store.alone(name):  # another process may be at it
        if not force:
            try:
                stored_arrays(found)
            except NotComputed:
                pass
            else:
                return
        arrays = step.load()(found, step.options(found.plan), config)
        about = {"format": _FORMAT, "name": name, "step": step.name, **_description(step, found)}
        about |= {"cells": _contents(found), **code()}
        found.store.put_arrays(name, {**arrays, _ABOUT: np.frombuffer(canonical(about).encode(), np.uint8)})


def publish_arrays(found: PlanCells) -> list[Path]:
    """Copy the arrays of a plan's step beside its reference results, in single precision; say what was written.

    Raises
    ------
    StoreError
        They cannot be read or written.
    """
    step = step_of(found.plan)
    name = None if step is None else _name(step, found)
    if name is None or not (found.store.folder / f"{name}.npz").exists():
        return []
    path = reference_file(found.plan.id).with_suffix(".npz")
    arrays = {
        key: array.astype(np.float32) if array.dtype == np.float64 else array
        for key, array in found.store.arrays(name).items()
    }
    Store(path.parent).put_arrays(path.stem, arrays, compressed=True)
    return [path]


def _kind(value: object) -> str:
    """What an option is, in words."""
    if isinstance(value, list):
        kinds = {_kind(each).partition(" ")[2] for each in value}
        if len(kinds) != 1:
            return "a list"
        noun, of, what = kinds.pop().partition(" of ")
        return f"a list of {noun}s{of}{what}"
    number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return "a number" if number else "a text" if isinstance(value, str) else "another value"


def _finished(found: PlanCells) -> list[PlanResult]:
    return [cell for cell in found.results if cell.finished]


def _name(step: Step, found: PlanCells) -> str:
    described = [_FORMAT, step.name, _description(step, found), [cell.key for cell in _finished(found)]]
    return f"{step.name}-{hashlib.sha256(canonical(described).encode('ascii')).hexdigest()[:20]}"


def _description(step: Step, found: PlanCells) -> dict[str, Any]:
    """What the arrays depend on beside cells."""
    return {
        "version": step.version,
        "options": step.options(found.plan),
        "methods": {name: methods()[name].version for name in step.methods},
    }


def _contents(found: PlanCells) -> dict[str, str | None]:
    """Key -> digest of the cell's arrays."""
    return {cell.key: cell.arrays_sha256 for cell in _finished(found)}
