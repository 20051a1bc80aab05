"""Names on the command line: options that take several, and what the shell completes (``gpbench completion SHELL``)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from click.decorators import FC

__all__ = ["dataset_names", "method_names", "plan_names", "setting_names", "several"]


def several(*names: str, **options: Any) -> Callable[[FC], FC]:
    """An option of click's that may be repeated, and may hold a list with commas between."""
    return click.option(*names, multiple=True, callback=_listed, **options)


def _listed(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:  # noqa: ARG001
    """What such an option names; the arguments are click's.

    A file may have a comma in its name, and a method's settings do. No name at all would mean everything.
    """
    whole = [text for text in value if "=" in text or Path(text).is_file()]
    names = tuple(name.strip() for text in value for name in ([text] if text in whole else text.split(",")))
    if "" in names:
        raise click.BadParameter(f"expected names with commas between; got {','.join(value)!r}")
    return names


def _beginning(names: Iterable[str], incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(name) for name in sorted(names) if name.startswith(incomplete)]


def _or_files(found: list[CompletionItem], incomplete: str) -> list[CompletionItem]:
    """Files of the current folder too, where a name may be a file's."""
    return found or [CompletionItem(incomplete, type="file")]


def method_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG001
    """Methods, plug-ins' too; the arguments are click's."""
    from gpbench.bench.methods import methods  # noqa: PLC0415  # heavy imports wait

    return _beginning(methods(), incomplete)


def dataset_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG001
    """Data sets of the catalogue, or files."""
    from gpbench.data.catalogue import entries  # noqa: PLC0415  # heavy imports wait

    return _or_files(_beginning(entries(), incomplete), incomplete)


def plan_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG001
    """Plans that ship, or files."""
    from gpbench.bench.plan.read import shipped  # noqa: PLC0415  # heavy imports wait

    return _or_files(_beginning(shipped(), incomplete), incomplete)


def setting_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG001
    """Settings of the methods that were named, of all methods where none was: ``NAME=``, then values that are words."""
    from gpbench.bench.methods import methods  # noqa: PLC0415  # heavy imports wait
    from gpbench.errors import GpbenchError  # noqa: PLC0415

    known = methods()
    named = [*(ctx.params.get("methods") or ()), ctx.params.get("name")]
    settings = {}
    for method in [known[name] for name in named if name in known] or known.values():
        try:
            settings.update(method.settings())
        except GpbenchError:  # its package is not installed
            continue
    name, equals, value = incomplete.partition("=")
    if not equals:
        return _beginning((f"{each}=" for each in settings), incomplete)
    one = settings.get(name)
    if one is None:
        return []
    words = ("true", "false") if one.kind is bool else (*one.choices, *(rule for rule in one.rules if ":" not in rule))
    return _beginning((f"{name}={word}" for word in words), f"{name}={value}")
