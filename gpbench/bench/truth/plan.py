"""A plan that sets methods beside the reference posteriors: each problem's data, split and kernel, under both links."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpbench.bench.cell import Limits
from gpbench.bench.method import BINARY
from gpbench.bench.plan.plan import Override, Plan, PlanMethod
from gpbench.bench.truth.reference import LINKS, SEED
from gpbench.errors import UsageError
from gpbench.model.inducing import InducingRule

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from gpbench.bench.method import Method
    from gpbench.bench.truth.reference import Problem

__all__ = ["links_of", "truth_plan"]

INDUCING = ("50", "all")
"""Numbers of inducing inputs, where nobody asks for others."""
SHARED: dict[str, Any] = {"kernel": "se", "noise": 0.0, "hyperparameters": "fixed", "learn_inducing": False}
"""Settings of all methods that have them."""


def links_of(method: Method) -> dict[str, dict[str, Any]]:
    """Link -> the settings under which a method has it.

    Raises
    ------
    UsageError
        It does not do two classes with a fixed kernel, or has neither logit nor probit.
    """
    if not method.tasks >= BINARY:
        raise UsageError(f"there are reference posteriors of two classes; {method.id} does {', '.join(method.tasks)}")
    known = method.settings()
    if "kernel" not in known:
        raise UsageError(f"a reference posterior is compared with latent functions; {method.id} has no kernel")
    found: dict[str, dict[str, Any]] = {}
    for name in ("link", "likelihood"):
        if name in known:
            found = {link: {name: link} for link in LINKS if link in known[name].choices}
            break
    else:
        own = method.build(method.resolve({})).likelihood_for("binary", 2).name
        found = {link: {} for link in LINKS if link == own}
    if not found:
        raise UsageError(f"there are reference posteriors of {' and '.join(LINKS)}; {method.id} has neither")
    return found


def truth_plan(
    chosen: Sequence[Method],
    problems: Sequence[Problem],
    *,
    links: Sequence[str] = LINKS,
    inducing: Sequence[str] | None = None,
    seconds: float | None = None,
    settings: Mapping[str, Any] | None = None,
) -> Plan:
    """The plan of some methods on some problems.

    Parameters
    ----------
    chosen : sequence of Method
    problems : sequence of Problem
    links : sequence of str
    inducing : sequence of str, optional
        Numbers of inducing inputs of the methods that have any; :data:`INDUCING` by default.
    seconds : float or None
        Training seconds after which a cell is stopped.
    settings : mapping
        More settings, for the methods that have them.

    Raises
    ------
    UsageError
        A method cannot be set beside a reference posterior, or has none of the links; a setting is nobody's; or numbers
        of inducing inputs are none, or no method has any.
    """
    tables = []
    for method in chosen:
        own = {link: values for link, values in links_of(method).items() if link in links}
        if not own:
            raise UsageError(f"{method.id} has no likelihood {' or '.join(links)}")
        for link, values in own.items():
            name = method.id if len(own) == 1 else f"{method.id}-{link}"
            tables.append(PlanMethod(name=name, method=method, label=name, printed=name, settings=values))
    known = {setting for each in chosen for setting in each.settings()}
    given = dict(settings or {})
    if strange := given.keys() - known:
        raise UsageError(f"none of {', '.join(each.id for each in chosen)} has the setting {min(strange)}")
    if inducing is not None:
        _check_inducing(inducing, chosen, known)
    return Plan(
        id="truth",
        path=Path("truth"),
        title="Distance from reference posteriors",
        paper="",
        item="truth",
        datasets=tuple(each.dataset for each in problems),
        methods=tuple(tables),
        seed=SEED,
        limits=Limits(seconds=seconds),
        render="truth",
        defaults={name: value for name, value in {**SHARED, **given}.items() if name in known},
        sweep={"inducing": tuple(INDUCING if inducing is None else inducing)} if "inducing" in known else {},
        overrides={each.dataset: override(each) for each in problems},
    )


def _check_inducing(asked: Sequence[str], chosen: Sequence[Method], known: Collection[str]) -> None:
    """Refuse numbers that are none before cells fail one by one, and such as would be passed over."""
    if "inducing" not in known:
        raise UsageError(
            f"--inducing applies to none of the methods {', '.join(each.id for each in chosen)}: none has that setting"
        )
    if not asked:
        raise UsageError("--inducing expects numbers like 100, 3% or all, with commas between; got none")
    for count in asked:
        InducingRule(count=count)


def override(problem: Problem) -> Override:
    """What a plan says of a problem's data set."""
    return Override(
        label=problem.name,
        split=problem.split,
        settings={"lengthscale": problem.lengthscale, "variance": problem.variance},
    )
