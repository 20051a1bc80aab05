"""What a plan comes to: a block for each data set and variant of a method, that is a row of a table or a curve.

A variant is a table of [methods] with one value of each swept name. :func:`blocks` opens nothing: a block says which
data set, settings, limits and splits, from which :mod:`gpbench.bench.plan.run` makes cells and
:mod:`gpbench.bench.plan.cells` finds them in the store.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, field
from itertools import product
from typing import TYPE_CHECKING, Any

from gpbench.bench.cell import Limits, SplitSpec
from gpbench.bench.choices import Choice, check_origin, shared_settings
from gpbench.bench.method import origin_name
from gpbench.bench.methods import methods, unknown_method
from gpbench.bench.plan.plan import DESCRIPTIVE, PlanMethod
from gpbench.bench.sources import dataset_id
from gpbench.data.catalogue import entry_of
from gpbench.data.splits import Protocol
from gpbench.errors import PluginError, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpbench.bench.cell import Identity
    from gpbench.bench.plan.plan import Plan

__all__ = ["SYMBOLS", "Block", "blocks", "runnable", "swept_words"]

#: Swept names that have a symbol in the papers.
SYMBOLS = {"inducing": "M", "active": "M", "train_rows": "n", "batch_size": "b", "iterations": "t"}


@dataclass(frozen=True, kw_only=True)
class Block:
    """One variant of a method on one data set.

    Attributes
    ----------
    dataset : str
        As it stands in the plan.
    table : PlanMethod
    position : (int, int)
        Of the data set and of the variant in the plan, from 0.
    sweep : mapping
        Swept name -> value; without names that do not reach this method.
    label, variant, printed : str
        As it is shown; the same without swept values; as the published file has it.
    settings : mapping
        Every setting with its value.
    limits : Limits
    split : str
        Canonical.
    seed, scaling : int, str
        The plan's.
    splits : int or None
        Only the first so many.
    planned : int or None
        As many splits as the plan takes where it is not cut short: all that there are where it is None.
    origin : Choice or None
        The method that the hyper-parameters come from.
    """

    dataset: str
    table: PlanMethod
    position: tuple[int, int]
    sweep: Mapping[str, Any] = field(hash=False)
    label: str
    variant: str
    printed: str
    settings: Mapping[str, Any] = field(hash=False)
    limits: Limits
    split: str
    seed: int
    scaling: str
    splits: int | None
    planned: int | None = None
    origin: Choice | None = field(default=None, hash=False)

    @property
    def choice(self) -> Choice:
        """The method with its settings."""
        return Choice(self.table.method, self.settings, self.origin)

    def identity(self, choice: Choice | None = None) -> Identity:
        """Of the block's cells, but for their data's content and their split's number, which are not known here.

        Parameters
        ----------
        choice : Choice, optional
            In place of the block's own: its origin.
        """
        split = SplitSpec(protocol=self.split, index=0, count=0, seed=self.seed)
        cell = (choice or self.choice).cell(
            dataset_id(self.dataset), limits=self.limits, split=split, seed=self.seed, scaling=self.scaling
        )
        return cell.identity()


def blocks(plan: Plan) -> list[Block]:
    """All blocks of a plan, data set by data set, method by method.

    Raises
    ------
    UsageError
        Settings that contradict one another, or a split that a value makes impossible.
    """
    variants = [(table, values) for table in plan.methods for values in _variants(plan, table)]
    found = []
    for row, dataset in enumerate(plan.datasets):
        chosen = plan.override(dataset).methods
        for column, (table, values) in enumerate(variants):
            if chosen is None or table.name in chosen:
                try:
                    found.append(_block(plan, dataset, table, values, (row, column)))
                except (UsageError, PluginError) as error:
                    raise UsageError(f"{plan.path}: {table.name} on {dataset}: {error}") from None
    return found


def runnable(plan: Plan) -> list[Block]:
    """The blocks that have cells: none of a plan that describes and runs nothing."""
    return [] if plan.render in DESCRIPTIVE else blocks(plan)


def swept_words(values: Mapping[str, Any]) -> str:
    """Swept values in words: ``M = 16, rate = 0.1``."""
    return ", ".join(f"{SYMBOLS.get(name, name)} = {value}" for name, value in values.items())


def _variants(plan: Plan, table: PlanMethod) -> list[dict[str, Any]]:
    """Values of the swept names that reach a method: its own table does not settle them, and it has the setting."""
    known = table.method.settings()
    limits = asdict(Limits())
    split = table.split or plan.split

    def reaches(name: str) -> bool:
        if f"{{{name}}}" in split:
            return True
        if name in limits:
            return name not in table.limits
        return name in known and name not in table.settings

    names = [name for name in plan.sweep if reaches(name)]
    return [dict(zip(names, values, strict=True)) for values in product(*(plan.sweep[name] for name in names))]


def _block(plan: Plan, dataset: str, table: PlanMethod, values: Mapping[str, Any], position: tuple[int, int]) -> Block:
    override = plan.override(dataset)
    if entry := entry_of(dataset):
        table.method.check_task(entry.task, dataset)
    split = Protocol.parse((override.split or table.split or plan.split).format(**values)).text
    limits = _limits(plan, table, dataset, values)
    named = {word for text in (table.label, table.printed) for word in re.findall(r"\{(\w+)\}", text)}
    shown = {name: value for name, value in values.items() if name not in named}
    variant = _filled(table.label, values)
    settings = _settings(plan, table, dataset, values, limits)
    planned = override.splits or plan.splits
    caps = [cap for cap in (planned, plan.reduction.splits) if cap is not None]
    return Block(
        dataset=dataset,
        table=table,
        position=position,
        sweep=values,
        label=f"{variant}, {swept_words(shown)}" if shown else variant,
        variant=variant if not named else table.name,
        printed=_filled(table.printed, values),
        settings=settings,
        limits=limits,
        split=split,
        seed=plan.seed,
        scaling=table.scaling or plan.scaling,
        splits=min(caps, default=None),
        planned=planned,
        origin=_origin(plan, table, dataset, values, limits=limits, settings=settings),
    )


def _origin(
    plan: Plan,
    table: PlanMethod,
    dataset: str,
    values: Mapping[str, Any],
    *,
    limits: Limits,
    settings: Mapping[str, Any],
) -> Choice | None:
    """What ``hyperparameters = from:NAME`` means: a table of [methods], else a method with the plan's settings."""
    name = origin_name(settings)
    if name is None:
        return None
    if name == table.name:
        raise UsageError(f"hyperparameters = from:{name} expects another method; got {name} itself")
    own = next((each for each in plan.methods if each.name == name), None)
    if own is None:
        if name not in methods():
            raise unknown_method(name, others=[each.name for each in plan.methods])
        method = methods()[name]
        shared = shared_settings(method, settings)
        if "hyperparameters" in method.settings():
            shared["hyperparameters"] = method.settings()["hyperparameters"].default
        own = PlanMethod(name=name, method=method, label=name, printed=name, settings=shared)
    reach = {key: value for key, value in values.items() if key not in own.settings}
    origin = Choice(own.method, _settings(plan, own, dataset, reach, limits))
    check_origin(table.method, settings, origin)
    return origin


def _filled(text: str, values: Mapping[str, Any]) -> str:
    return re.sub(r"\{(\w+)\}", lambda word: str(values.get(word[1], word[0])), text)


def _limits(plan: Plan, table: PlanMethod, dataset: str, values: Mapping[str, Any]) -> Limits:
    """The plan's, then the method's, then the data set's, then what is swept; none above the caps."""
    given = {name: value for name, value in asdict(plan.limits).items() if value is not None}
    given |= {**table.limits, **plan.override(dataset).limits}
    given |= {name: value for name, value in values.items() if name in asdict(Limits())}
    for name, cap in asdict(plan.reduction.caps).items():
        if cap is not None:
            given[name] = min(given.get(name, cap), cap)
    return Limits(**given)


def _settings(plan: Plan, table: PlanMethod, dataset: str, values: Mapping[str, Any], limits: Limits) -> dict[str, Any]:
    own = plan.override(dataset).settings
    shared = {name: value for name, value in own.items() if not isinstance(value, dict)}
    special = own.get(table.name, {})
    known = table.method.settings()
    given: dict[str, Any] = {}
    for layer in (plan.defaults, table.settings, values, shared, special, plan.reduction.settings):
        given |= {name: value for name, value in layer.items() if name in known}
    if limits.iterations is not None and "max_iterations" in known:
        # A scheme that plans its steps must know how many there will be.
        given["max_iterations"] = min(int(given.get("max_iterations", limits.iterations)), limits.iterations)
    resolved = table.method.resolve(given)
    table.method.build(resolved)
    return resolved
