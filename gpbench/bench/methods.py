"""The methods: schemes with their settings, known by an id. Third-party packages add theirs by entry points.

A package that adds methods says in its ``pyproject.toml``::

    [project.entry-points."gpbench.methods"]
    mine = "mypackage.methods:METHODS"      # a Method, or a list of them

and a package that does not load is reported by ``gpbench list`` and breaks nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass, field, is_dataclass, replace
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from gpbench.errors import PluginError, UsageError, unknown_name
from gpbench.schemes.base import Scheme, Setting, settings_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["GROUP", "Method", "method", "methods", "plugin_problems"]

#: The entry-point group of third-party methods.
GROUP = "gpbench.methods"


@dataclass(frozen=True, kw_only=True)
class Method:
    """A scheme with its settings.

    Attributes
    ----------
    id, title : str
        ``"x-gpc"``, and a line for people.
    tasks : frozenset of str
        Of binary, multiclass, count, ordinal.
    paper : str
        Where it comes from: ``"wenzel2019"``, or empty.
    version : int
        Raised when the method's numbers change; part of every cell's key.
    scheme : type or str
        A scheme's dataclass, or ``"module:Class"``, which is imported on demand.
    preset : mapping
        Settings whose default in this method differs from the scheme's.
    extra : str or None
        The optional dependency group that the scheme needs.
    """

    id: str
    title: str
    tasks: frozenset[str]
    paper: str = ""
    version: int = 1
    scheme: type | str
    preset: Mapping[str, Any] = field(default_factory=dict, hash=False)
    extra: str | None = None

    def load(self) -> type:
        """The scheme's class.

        Raises
        ------
        UsageError
            An optional dependency is missing.
        PluginError
            The scheme cannot be imported, or is no dataclass.
        """
        found: Any = self._imported() if isinstance(self.scheme, str) else self.scheme
        if not (isinstance(found, type) and is_dataclass(found)):
            raise PluginError(f"the scheme of method {self.id} must be a dataclass; got {found!r}")
        return found

    def _imported(self) -> Any:
        assert isinstance(self.scheme, str)
        module, _, name = self.scheme.partition(":")
        try:
            return getattr(import_module(module), name)
        except ImportError as error:
            absent = error.name if isinstance(error, ModuleNotFoundError) else None
            if self.extra is not None and absent is not None and absent.partition(".")[0] != "gpbench":
                remedy = f'pip install "gpbench[{self.extra}]"'
                raise UsageError(
                    f"method {self.id} needs a package that is not installed ({error}); {remedy}"
                ) from error
            raise PluginError(f"the scheme {self.scheme} of method {self.id} cannot be imported: {error}") from error
        except AttributeError as error:
            raise PluginError(f"module {module} has no {name}, the scheme of method {self.id}") from error

    def settings(self) -> dict[str, Setting]:
        """Settings by name, with this method's defaults."""
        found = {}
        for each in settings_of(self.load()):
            default = self.preset.get(each.name, each.default)
            found[each.name] = each if default == each.default else _with_default(each, default)
        return found

    def resolve(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Every setting with its value.

        Parameters
        ----------
        given : mapping
            Values, or their text forms, of some settings.

        Raises
        ------
        UsageError
            An unknown setting or a value that is not allowed.
        """
        known = self.settings()
        for name in given:
            if name not in known:
                raise UsageError(f"method {self.id}: {unknown_name('setting', name, known)}")
        return {name: _value(self, each, given) for name, each in known.items()}

    def build(self, settings: Mapping[str, Any]) -> Scheme:
        """The scheme with these settings (see :meth:`resolve`).

        Raises
        ------
        UsageError
            The settings contradict one another.
        """
        scheme: Scheme = self.load()(**settings)
        return scheme

    def check_task(self, task: str, dataset: str) -> None:
        """See that the method can do the task of a data set.

        Raises
        ------
        UsageError
            It cannot.
        """
        if task not in self.tasks:
            can = ", ".join(sorted(self.tasks))
            raise UsageError(f"method {self.id} cannot do {dataset}: its task is {task}; {self.id} does {can}")


def _value(owner: Method, one: Setting, given: Mapping[str, Any]) -> Any:
    if one.name not in given:
        return one.default
    value = given[one.name]
    if one.kind is str and type(value) is int:  # `inducing = 100` in a plan
        value = str(value)
    try:
        return one.parse(value) if isinstance(value, str) else one.check(value)
    except UsageError as error:
        raise UsageError(f"method {owner.id}: {error}") from None


def _with_default(one: Setting, default: Any) -> Setting:
    return replace(one, default=one.check(default))


_BINARY = frozenset({"binary"})

_BUILT_IN = (
    Method(
        id="x-gpc",
        title="Conjugate augmentation with Polya-Gamma variables, natural-gradient mini-batches",
        tasks=frozenset({"binary"}),
        paper="wenzel2019",
        scheme="gpbench.schemes.xgpc:XGPC",
    ),
    Method(
        id="linear",
        title="Logistic regression (scikit-learn), the baseline that a Gaussian process must beat",
        tasks=frozenset({"binary", "multiclass"}),
        scheme="gpbench.schemes.linear:Linear",
    ),
    Method(
        id="klsp",
        title="Sparse KL bound under L-BFGS-B, inducing inputs and hyper-parameters optimised",
        tasks=_BINARY,
        paper="hensman2015",
        scheme="gpbench.schemes.klsp:KLSp",
    ),
    Method(
        id="klsp-batch-z-fixed",
        title="Sparse KL bound under L-BFGS-B, inducing inputs fixed, unwhitened",
        tasks=_BINARY,
        paper="izmailov2016",
        scheme="gpbench.schemes.klsp:KLSp",
        preset={"link": "logit", "whiten": False, "learn_inducing": False, "freeze_iterations": 0},
    ),
    Method(
        id="klsp-sgd",
        title="Sparse KL bound on mini-batches by AdaDelta or Adam, everything optimised",
        tasks=_BINARY,
        paper="hensman2015",
        scheme="gpbench.schemes.klsp_sgd:KLSpSGD",
    ),
    Method(
        id="svi-adadelta",
        title="Sparse KL bound on mini-batches by AdaDelta, inducing inputs fixed, rate from a grid",
        tasks=_BINARY,
        paper="izmailov2016",
        scheme="gpbench.schemes.klsp_sgd:KLSpSGD",
        preset={
            "link": "logit",
            "whiten": False,
            "learn_inducing": False,
            "freeze_iterations": 0,
            "batch_size": 50,
            "objective": "batch",
            "rate_grid": 10,
        },
    ),
    Method(
        id="svgpc",
        title="Sparse KL bound by natural gradients for q(u) and Adam for hyper-parameters",
        tasks=_BINARY,
        paper="wenzel2019",
        scheme="gpbench.schemes.svgpc:SVGPC",
    ),
    Method(
        id="vi-jj",
        title="Jaakkola-Jordan bound of the logit, q(u) and its tangents in closed form",
        tasks=_BINARY,
        paper="izmailov2016",
        scheme="gpbench.schemes.vijj:VIJJ",
    ),
    Method(
        id="vi-taylor",
        title="Second-order expansion of the logit, q(u) by Newton's method",
        tasks=_BINARY,
        paper="izmailov2016",
        scheme="gpbench.schemes.vijj:VIJJ",
        preset={"bound": "taylor"},
    ),
    Method(
        id="vi-jj-full",
        title="Jaakkola-Jordan bound, tangents and hyper-parameters under one L-BFGS-B",
        tasks=_BINARY,
        paper="izmailov2016",
        scheme="gpbench.schemes.vijj:VIJJ",
        preset={"variant": "full"},
    ),
    Method(
        id="vi-jj-hybrid",
        title="Jaakkola-Jordan bound, tangents in closed form and then with the hyper-parameters",
        tasks=_BINARY,
        paper="izmailov2016",
        scheme="gpbench.schemes.vijj:VIJJ",
        preset={"variant": "hybrid"},
    ),
)


@dataclass(frozen=True)
class _Registry:
    methods: Mapping[str, Method]
    problems: tuple[PluginError, ...]


@cache
def _registry() -> _Registry:
    found = {each.id: each for each in _BUILT_IN}
    problems: list[PluginError] = []
    for entry in sorted(entry_points(group=GROUP), key=lambda each: (each.name, each.value)):
        place = f"plug-in {entry.name!r} ({entry.value})"
        try:
            loaded = entry.load()
            offered = [loaded] if isinstance(loaded, Method) else list(loaded)
        except (Exception, SystemExit) as error:  # noqa: BLE001  # a third party's module can raise anything
            problems.append(PluginError(f"{place} does not load: {type(error).__name__}: {error}"))
            continue
        problems.extend(_admit(found, offered, place))
    return _Registry(MappingProxyType(found), tuple(problems))


def _admit(found: dict[str, Method], offered: Iterable[Any], place: str) -> list[PluginError]:
    problems = []
    for each in offered:
        if not isinstance(each, Method):
            problems.append(PluginError(f"{place} must offer Method objects; got {each!r}"))
        elif not (isinstance(each.id, str) and isinstance(each.title, str) and isinstance(each.tasks, frozenset)):
            problems.append(PluginError(f"{place}: id and title must be texts, and tasks a frozenset; got {each!r}"))
        elif each.id in found:
            problems.append(PluginError(f"{place} offers method {each.id!r}, an id that is taken"))
        else:
            found[each.id] = each
    return problems


def methods() -> Mapping[str, Method]:
    """Every method by id: the built-in ones first, then those of plug-ins."""
    return _registry().methods


def plugin_problems() -> tuple[PluginError, ...]:
    """Plug-ins that do not load, or whose methods cannot be taken."""
    return _registry().problems


def method(name: str) -> Method:
    """The method of an id.

    Raises
    ------
    UsageError
        There is none; the message names the nearest.
    """
    known = methods()
    if name not in known:
        raise unknown_name("method", name, known)
    return known[name]
