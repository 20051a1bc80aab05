"""A method with every setting decided: which option reaches which method, and what ``from:METHOD`` means.

``hyperparameters = from:METHOD`` gives a cell the hyper-parameters that another method learned. METHOD's cell, the
origin, has the same data, split, seed and limits. It runs first, or is found in the store; its posterior's kernel (and
constant mean, and the likelihood's own parameters, for schemes that have them) is then held fixed. The dependent cell's
description, and so its key, holds the origin's key.

The origin must learn a kernel of the same form for one latent function. So an origin has none itself, and there are no
cycles.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpbench.bench.cell import CellSpec, OriginSpec
from gpbench.bench.code import changes, source_of
from gpbench.bench.method import origin_name
from gpbench.bench.methods import methods as all_methods
from gpbench.bench.methods import unknown_method
from gpbench.data.catalogue import task_of
from gpbench.errors import DataError, UsageError, unknown_name
from gpbench.model.posterior import META, meta_of
from gpbench.schemes.settings import Learned

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from gpbench.bench.cell import Limits, SplitSpec
    from gpbench.bench.method import Method
    from gpbench.bench.store import Store
    from gpbench.data.dataset import Dataset
    from gpbench.model.likelihoods import Likelihood

__all__ = [
    "Choice",
    "check_likelihoods",
    "check_origin",
    "choose",
    "learned_in",
    "learned_of",
    "origin_of",
    "parse_assignments",
    "shared_settings",
]

#: What the origin takes over from the method that it learns for, unless it is told otherwise: a setting of the origin,
#: and where it may stand there. Of two classes a likelihood is known by its link.
_SHARED = {
    "kernel": ("kernel",),
    "lengthscale": ("lengthscale",),
    "variance": ("variance",),
    "noise": ("noise",),
    "link": ("link", "likelihood"),
    "likelihood": ("likelihood", "link"),
}


@dataclass(frozen=True)
class Choice:
    """A method with every setting decided, and the one that it has its hyper-parameters from, if there is one."""

    method: Method
    settings: Mapping[str, Any]
    origin: Choice | None = None

    def likelihood(self, dataset: Dataset) -> Likelihood:
        """p(y | f) on a data set.

        Raises
        ------
        UsageError
            The method has none for its task.
        """
        return self.method.build(self.settings).likelihood_for(dataset.task, len(dataset.classes))

    def cell(self, dataset: Dataset | str, *, limits: Limits, split: SplitSpec, seed: int, scaling: str) -> CellSpec:
        """The cell of this choice on one split.

        Parameters
        ----------
        dataset : Dataset or str
            Its id alone where it is not open. What is known only then is empty, and the cell's identity is to be
            compared but for :data:`gpbench.bench.cell.CONTENT`.
        limits : Limits
        split : SplitSpec
        seed : int
            Of the scheme.
        scaling : str
        """
        origin = None
        if self.origin is not None:
            theirs = self.origin.cell(dataset, limits=limits, split=split, seed=seed, scaling=scaling)
            origin = OriginSpec(
                key=theirs.key,
                method=theirs.method,
                version=theirs.version,
                settings=theirs.settings,
                source=theirs.source,
            )
        if isinstance(dataset, str):
            name, checksum, likelihood = dataset, "", ""
            task = task_of(dataset)
        else:
            name, checksum, likelihood = dataset.id, dataset.checksum, self.likelihood(dataset).name
            task = dataset.task
        return CellSpec(
            method=self.method.id,
            version=self.method.version_for(task),
            settings=self.settings,
            limits=limits,
            dataset=name,
            checksum=checksum,
            split=split,
            seed=seed,
            likelihood=likelihood,
            scaling=scaling,
            source=source_of(self.method),
            changes=changes(),
            origin=origin,
        )


def parse_assignments(assignments: Iterable[str]) -> dict[str, str]:
    """``name=value`` texts as a mapping.

    Raises
    ------
    UsageError
        No equals sign, or a name given twice.
    """
    found: dict[str, str] = {}
    for text in assignments:
        name, equals, value = text.partition("=")
        name = name.strip()
        if not equals or not name:
            raise UsageError(f"--set expects name=value; got {text!r}")
        if name in found:
            raise UsageError(f"--set gives {name} twice: {found[name]!r} and {value.strip()!r}")
        found[name] = value.strip()
    return found


def choose(
    methods: Sequence[Method],
    flags: Mapping[str, str | int | None],
    *,
    assignments: Mapping[str, str],
    iterations: int | None = None,
) -> list[Choice]:
    """Settle the settings of methods that are run side by side.

    A flag or assignment applies to each method that has the setting; one that applies to none is an error. Where the
    hyper-parameters come from another method, it applies to that one too, as if it had been named.

    Parameters
    ----------
    methods : sequence of Method
    flags : mapping
        Setting -> value of the options that are settings (``--inducing``); None where not given.
    assignments : mapping
        From ``--set``.
    iterations : int or None
        The limit on iterations, if there is one. A scheme that plans its steps must know it, so it is also the value of
        a setting ``max_iterations`` that is not assigned.

    Raises
    ------
    UsageError
        A method named twice, a setting that no method has, one given twice, or a value that is not allowed.
    """
    names = [each.id for each in methods]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"method {name} is named twice")
    given: dict[str, str | int] = {name: value for name, value in flags.items() if value is not None}
    known = {each.id: each.settings() for each in methods}
    every = {name for settings in known.values() for name in settings}
    origin = origin_name(assignments)
    if origin is not None and origin in all_methods():
        every |= all_methods()[origin].settings().keys()
    for name, value in given.items():
        if name not in every:
            option = _option(name)
            instead = f"; --set link={value} names a link" if name == "likelihood" and "link" in every else ""
            raise UsageError(
                f"{option} applies to none of the methods {', '.join(names)}: none has that setting{instead}"
            )
    for name, value in assignments.items():
        if name in given:
            option = _option(name)
            raise UsageError(f"{name} is given twice: by {option} and by --set {name}={value}")
        if name not in every:
            raise unknown_name(f"setting (of {', '.join(names)})", name, every)
        given[name] = value
    if iterations is not None:
        given.setdefault("max_iterations", iterations)
    chosen = []
    for each in methods:
        settings = each.resolve({name: value for name, value in given.items() if name in known[each.id]})
        chosen.append(Choice(each, settings, origin_of(each, settings, given=given)))
    return chosen


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")


def origin_of(method: Method, settings: Mapping[str, Any], *, given: Mapping[str, Any]) -> Choice | None:
    """The origin that a method's settings name; None where they name none.

    Parameters
    ----------
    method : Method
    settings : mapping
        All of its settings.
    given : mapping
        Settings that were asked for, of any method; the origin takes those that it has.

    Raises
    ------
    UsageError
        There is no such method, it is the method itself, or it does not learn the same kernel.
    """
    name = origin_name(settings)
    if name is None:
        return None
    if name == method.id:
        raise UsageError(f"method {method.id}: hyperparameters=from:{name} expects another method; got {name} itself")
    if name not in all_methods():
        raise UsageError(f"method {method.id}: hyperparameters=from:{name}: {unknown_method(name)}")
    other = all_methods()[name]
    own = {key: value for key, value in given.items() if key in other.settings() and key != "hyperparameters"}
    found = Choice(other, other.resolve({**shared_settings(other, settings), **own}))
    check_origin(method, settings, found)
    return found


def shared_settings(origin: Method, settings: Mapping[str, Any]) -> dict[str, Any]:
    """What an origin takes over from the settings of the method that it learns for: kernel, its start, likelihood."""
    known = origin.settings()
    shared = {}
    for name, places in _SHARED.items():
        here = next((place for place in places if place in settings), None)
        if name in known and here is not None:
            try:
                shared[name] = known[name].check(settings[here])
            except UsageError:  # a likelihood that it does not have: it has its own
                continue
    return shared


def check_origin(method: Method, settings: Mapping[str, Any], origin: Choice) -> None:
    """See that an origin learns the kernel that a method wants.

    Raises
    ------
    UsageError
        It does not.
    """
    where = f"method {method.id}: hyperparameters={settings['hyperparameters']}"
    learns = origin.settings.get("hyperparameters")
    if learns is None or "kernel" not in origin.settings:
        raise UsageError(f"{where} expects a method that learns a kernel; got {origin.method.id}, which learns none")
    if learns == "fixed" or origin_name(origin.settings) is not None:
        raise UsageError(f"{where} expects hyperparameters=learned of {origin.method.id}; got {learns}")
    wanted, got = (_form(each) for each in (settings, origin.settings))
    if wanted != got:
        raise UsageError(f"{where} expects the kernel {wanted}, as {method.id} has it; {origin.method.id} has {got}")


def check_likelihoods(
    choice: Choice, own: Likelihood, origins: Likelihood, *, dataset: str, task: str, classes: int
) -> None:
    """See that there is one latent function, and that what is learned of the origin's likelihood can be handed on.

    Raises
    ------
    UsageError
        There are several latent functions, whose kernels are learned each for itself; or the likelihoods are not the
        same, and are not of two classes, which have no parameters.
    """
    assert choice.origin is not None
    where = f"method {choice.method.id} on {dataset}: hyperparameters={choice.settings['hyperparameters']}"
    for each, likelihood in ((choice, own), (choice.origin, origins)):
        number = likelihood.n_latent(classes)
        if number != 1:
            raise UsageError(f"{where} expects one latent function; {each.method.id} has {number}")
    if own.name != origins.name and task != "binary":
        raise UsageError(f"{where} expects the likelihood {own.name} of {choice.origin.method.id}; got {origins.name}")


def learned_in(store: Store, key: str) -> Learned:
    """The hyper-parameters that a finished cell ended with.

    Raises
    ------
    StoreError
        Its arrays cannot be read.
    DataError
        It left no kernel, or several.
    """
    return learned_of(store.arrays(key, names=(META,)), what=f"cell {key}")


def learned_of(arrays: Mapping[str, Any], *, what: str) -> Learned:
    """The hyper-parameters of a packed posterior.

    Raises
    ------
    DataError
        It has no kernel, or several; the message begins with ``what``.
    """
    about = meta_of(arrays)
    latents = about.get("latents", [])
    if len(latents) != 1:
        raise DataError(f"{what} was to leave the kernel of one latent function; it left {len(latents)}")
    (latent,) = latents
    return Learned(kernel=latent["kernel"], likelihood=about["likelihood"], mean=latent["mean"])


def _form(settings: Mapping[str, Any]) -> str:
    """A kernel with what decides on its number of hyper-parameters."""
    return f"{settings['kernel']} {'with' if settings.get('noise') else 'without'} noise"
