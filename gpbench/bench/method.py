"""A method: a scheme with its settings, known by an id."""

from __future__ import annotations

from dataclasses import dataclass, field, is_dataclass, replace
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

from gpbench.errors import MissingExtra, PluginError, UsageError, unknown_name
from gpbench.schemes.base import Scheme, Setting, settings_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpbench.schemes.settings import Learned

__all__ = ["BINARY", "CLASSES", "Checking", "Method", "Timing", "origin_name"]

BINARY = frozenset({"binary"})
CLASSES = frozenset({"binary", "multiclass"})


@dataclass(frozen=True, kw_only=True)
class Timing:
    """What a method's training has been measured to take, for estimates before anything runs.

    :mod:`gpbench.bench.plan.estimate` counts the floating point operations of a step; these numbers say what they
    usually come to, and how many steps there are. The built-in methods' come from 634 cells on hensman2015's,
    wenzel2019's, izmailov2016's, villacampa2017's and sheth2015's data (one thread, a busy AMD EPYC Zen 3), of which
    half were within a factor of 1.8 of the estimate, nine in ten within 4.5, and all of them together within 1.2. A new
    method may leave them as they are until its cells have been timed.

    Attributes
    ----------
    steps : int or None
        After how many its cells have usually converged; None where the limit on steps is usually what ends training.
    steps_fixed : int or None
        The same where the hyper-parameters are not learned; None: as many.
    overhead : float
        Seconds of a step beyond its linear algebra, for each latent function; of a whole training without a kernel.
    per_input : float
        Seconds for each input of each row of a step.
    load : float
        Seconds of a step's linear algebra, as a multiple of what they are at 4e9 operations a second; without a kernel
        those of 100 operations for each number in X.
    """

    steps: int | None = None
    steps_fixed: int | None = None
    overhead: float = 1e-3
    per_input: float = 0.0
    load: float = 1.0


@dataclass(frozen=True, kw_only=True)
class Checking:
    """What ``gpbench check`` must know of a method, since it cannot find it out.

    Attributes
    ----------
    short : mapping
        Settings of a fit of a few steps, beside ``max_iterations`` and ``inducing``, which are few anyway.
    settled : mapping
        Settings of a fit of q alone that comes to its end, beside a fixed kernel and 400 iterations.
    acts_with : mapping
        Setting -> other settings under which it acts, where pairs with a choice do not show that; a value of the
        setting itself where it is a text of its own form.
    memory : mapping
        Settings that change memory and time alone -> why; predictions must agree to 1e-10. ``block_rows``, if it
        is one of the method's, unless something else is said.
    exempt : mapping
        Check -> why the method need not hold it.
    """

    short: Mapping[str, Any] = field(default_factory=dict)
    settled: Mapping[str, Any] = field(default_factory=dict)
    acts_with: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    memory: Mapping[str, str] = field(default_factory=lambda: {"block_rows": "rows of a block: memory alone"})
    exempt: Mapping[str, str] = field(default_factory=dict)


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
    versions : mapping
        Task -> version, where the numbers of this task alone have changed since ``version``.
    scheme : type or str
        A scheme's dataclass, or ``"module:Class"``, which is imported on demand.
    objective : str
        What is reported as its bound: ``bound``, which lies below the log evidence, or ``evidence``, an estimate of it.
    preset : mapping
        Settings whose default in this method differs from the scheme's.
    extra : str or None
        The optional dependency group that the scheme needs.
    timing : Timing
        How long it trains, for estimates.
    checking : Checking
        For ``gpbench check``: exceptions with their reasons, and where settings act.
    """

    id: str
    title: str
    tasks: frozenset[str]
    paper: str = ""
    version: int = 1
    versions: Mapping[str, int] = field(default_factory=dict, hash=False)
    scheme: type | str
    objective: Literal["bound", "evidence"] = "bound"
    preset: Mapping[str, Any] = field(default_factory=dict, hash=False)
    extra: str | None = None
    timing: Timing = field(default_factory=Timing)
    checking: Checking = field(default_factory=Checking, hash=False)

    def version_for(self, task: str | None) -> int:
        """The version of its numbers on data of a task; None: one that is not known."""
        return self.version if task is None else self.versions.get(task, self.version)

    def is_current(self, version: int, task: str | None) -> bool:
        """Whether a version is that of its numbers now, of some task's where the task is not known."""
        if task is None:
            return version in {self.version, *self.versions.values()}
        return version == self.version_for(task)

    @property
    def latest(self) -> int:
        """The highest of its versions."""
        return max([self.version, *self.versions.values()])

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

    def ready(self) -> None:
        """Import all that training needs, so that no clock counts it: the scheme, and the ``libraries`` that it names.

        Raises
        ------
        UsageError
            An optional dependency is missing.
        PluginError
            The scheme or one of its libraries cannot be imported.
        """
        for name in getattr(self.load(), "libraries", ()):
            try:
                import_module(name)
            except ImportError as error:
                raise PluginError(f"{name}, with which method {self.id} trains, cannot be imported: {error}") from error

    def _imported(self) -> Any:
        assert isinstance(self.scheme, str)
        module, _, name = self.scheme.partition(":")
        try:
            found = import_module(module)
        except ImportError as error:
            absent = error.name if isinstance(error, ModuleNotFoundError) else None
            if self.extra is not None and absent is not None and absent.partition(".")[0] != "gpbench":
                remedy = f'pip install "gpbench[{self.extra}]"'
                raise MissingExtra(
                    f"method {self.id} needs a package that is not installed ({error}); {remedy}", extra=self.extra
                ) from error
            raise PluginError(f"the scheme {self.scheme} of method {self.id} cannot be imported: {error}") from error
        except Exception as error:  # a third party's module can raise anything
            words = f"{type(error).__name__}: {error}"
            raise PluginError(f"the scheme {self.scheme} of method {self.id} cannot be imported: {words}") from error
        try:
            return getattr(found, name)
        except AttributeError as error:
            raise PluginError(f"module {module} has no {name}, the scheme of method {self.id}") from error

    def settings(self) -> dict[str, Setting]:
        """Settings by name, with this method's defaults."""
        return dict(_settings(self, self.load()))

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

    def build(self, settings: Mapping[str, Any], *, learned: Learned | None = None) -> Scheme:
        """The scheme with these settings (see :meth:`resolve`).

        Parameters
        ----------
        settings : mapping
        learned : Learned or None
            Where ``hyperparameters`` is ``from:METHOD``: what METHOD ended with. The scheme itself is told ``fixed``.

        Raises
        ------
        UsageError
            The settings contradict one another.
        """
        given: dict[str, Any] = dict(settings)
        if origin_name(settings) is not None:
            given |= {"hyperparameters": "fixed", "given": learned}
        scheme: Scheme = self.load()(**given)
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


def origin_name(settings: Mapping[str, Any]) -> str | None:
    """The METHOD of ``hyperparameters = from:METHOD``; None where the hyper-parameters are not another method's."""
    word, colon, name = str(settings.get("hyperparameters", "")).partition(":")
    return name if colon and word == "from" else None


@cache  # plans ask thousands of times
def _settings(owner: Method, scheme: type) -> dict[str, Setting]:
    found = {}
    for each in settings_of(scheme):
        default = owner.preset.get(each.name, each.default)
        found[each.name] = each if default == each.default else _with_default(each, default)
    return found


def _value(owner: Method, one: Setting, given: Mapping[str, Any]) -> Any:
    if one.name not in given:
        return one.default
    value = given[one.name]
    if one.kind is str and type(value) is int:  # `inducing = 100` in a plan
        value = str(value)
    elif one.kind is str and not one.choices and isinstance(value, float):
        raise UsageError(f"method {owner.id}: setting {one.name} must be a text or an integer; got {value}")
    try:
        return one.parse(value) if isinstance(value, str) else one.check(value)
    except UsageError as error:
        raise UsageError(f"method {owner.id}: {error}") from None


def _with_default(one: Setting, default: Any) -> Setting:
    return replace(one, default=one.check(default))
