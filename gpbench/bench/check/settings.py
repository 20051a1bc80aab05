"""Each setting is read: some value changes the posterior's bits, the iterations, or whether there is a fit at all.

A setting that nothing reads makes another key and another row of a report for the same numbers. Values are found from
what the setting declares: its choices, both truths, steps around the default and the ends of its range. Where none
changes anything under the settings of a short fit, each other choice of the method is turned in turn; what acts only
under more than that, the method states (``Checking.acts_with``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gpbench.bench.check.trial import REFUSED, Exempt, Failed
from gpbench.errors import UsageError
from gpbench.model.posterior import Posterior
from gpbench.schemes.settings import FROM, Learned

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from gpbench.bench.check.trial import Trial
    from gpbench.schemes.base import Setting

__all__ = ["is_read", "values_of"]

MEMORY = 1e-10
"""Largest difference of predictions under another value of a setting of memory alone."""

WORDS = {"kernel": ("se", "matern32-ard", "linear-ard"), "inducing": ("3", "all", "50%")}
"""Values of texts that are no choices."""

ORDINARY = (0.5, 2.0, 1e-3, 5.0, 0.05, 30.0)
"""Numbers to try where there is none to go from: the default or the value is none or 0."""


def values_of(setting: Setting, now: Any) -> Iterator[Any]:
    """Values of a setting other than the one that it has now, the most ordinary first."""
    seen = [now]
    for value in _tried(setting, now):
        try:
            allowed = setting.check(value)
        except UsageError:
            continue
        if not any(allowed == old and type(allowed) is type(old) for old in seen):
            seen.append(allowed)
            yield allowed


def _tried(setting: Setting, now: Any) -> Iterator[Any]:
    if setting.kind is bool:
        yield from (True, False)
    elif setting.choices:
        yield from setting.choices
    elif setting.kind is str:
        yield from WORDS.get(setting.name, ())
    else:
        numbers: list[float] = []
        for start in (now, setting.default):
            if isinstance(start, int | float):
                numbers += [start / 3, start * 3, start / 1e3, start * 1e3]
        numbers += () if setting.default and now else ORDINARY
        numbers += [end for end in (setting.minimum, setting.maximum) if end is not None]
        # no more than ten thousand of whatever is counted: a check takes seconds
        yield from numbers if setting.kind is float else sorted({round(each) for each in numbers if each <= 10_000})
    if setting.optional:
        yield None
    yield from (rule for rule in setting.rules if ":" not in rule)


def is_read(name: str, trials: Sequence[Trial]) -> str:
    """See that a setting of a method is read, in one of its tasks.

    Raises
    ------
    Failed
        No value that was tried changes anything.
    Exempt
        It is a setting of memory alone, and holds to that.
    """
    method = trials[0].method
    if name in method.checking.memory:
        apart = max(_apart(trial, name) for trial in trials)
        if not apart <= MEMORY:
            raise Failed(f"said to change memory alone; predictions differ by {apart:.2g}, expected {MEMORY:g} at most")
        raise Exempt(f"{method.checking.memory[name]}; predictions within {apart:.1g}")
    one = trials[0].known[name]
    if len(one.choices) == 1 and not (one.optional or one.rules):
        raise Exempt(f"{one.choices[0]} is its one value")
    tried = 0
    for trial in trials:
        for context, told in _contexts(trial, name):
            before = trial.outcome(context)
            for value in values_of(trial.known[name], context[name]):
                tried += 1
                if trial.outcome({**context, name: value}) != before:
                    return f"{trial.task}: {context[name]} and {value} differ{told}"
            if before != REFUSED and FROM in trial.known[name].rules and _learned_differs(trial, context, before):
                return f"{trial.task}: {FROM} differs{told}"
    raise Failed(f"none of {tried} values changes the posterior's bits, the iterations or whether there is a fit")


def _contexts(trial: Trial, name: str) -> Iterator[tuple[dict[str, Any], str]]:
    """Settings under which to turn one of them, and how to say so."""
    short = trial.short
    stated: Mapping[str, Any] = trial.method.checking.acts_with.get(name, {})
    if stated:
        yield trial.settings(short, stated), " with " + ", ".join(f"{key}={value}" for key, value in stated.items())
        return
    yield short, ""
    for other in trial.known.values():
        if other.name != name and (other.choices or other.kind is bool):
            for value in values_of(other, short[other.name]):
                yield {**short, other.name: value}, f" with {other.name}={value}"


def _learned_differs(trial: Trial, context: Mapping[str, Any], before: tuple[Any, ...]) -> bool:
    """Whether hyper-parameters that another method learned change anything."""
    posterior = trial.fit(context).posterior
    if not isinstance(posterior, Posterior) or len(posterior.latents) != 1:
        return False
    (latent,) = posterior.latents
    kernel = latent.kernel.with_theta(latent.kernel.theta + 0.3)
    learned = Learned(kernel=kernel.spec(), likelihood=posterior.likelihood.spec(), mean=latent.mean)
    return trial.outcome({**context, "hyperparameters": "from:another"}, learned=learned) != before


def _apart(trial: Trial, name: str) -> float:
    """Largest difference of predictions that a setting of memory alone makes.

    After three iterations, since each of them makes more of what the order of sums has changed.
    """
    few = trial.settings(trial.short, {"max_iterations": 3})
    p = trial.predicted(trial.fit(few).posterior)
    values = values_of(trial.known[name], few[name])
    others = [trial.predicted(trial.fit({**few, name: value}).posterior) for value in values]
    return max(float(np.abs(other - p).max()) for other in others)
