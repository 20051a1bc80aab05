"""Pages that are made of the code: methods with their settings, data sets, commands, shipped plans.

mkdocs calls :func:`on_files` at each build, so that these pages say what this version does and nobody keeps them by
hand. A scheme whose optional package is absent is named, and its settings are missing there.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import click
from mkdocs.structure.files import File

from gpbench.bench.methods import methods as known_methods
from gpbench.bench.plan.read import read_plan
from gpbench.bench.plan.read import shipped as shipped_files
from gpbench.cli import COMMANDS, main
from gpbench.data.catalogue import catalogue
from gpbench.report.plan.renderers import RENDERERS
from gpbench.report.tables.inventory import dataset_facts, method_facts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files

TASKS = {"binary": "two classes", "multiclass": "several classes", "count": "counts", "ordinal": "ordinal targets"}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages."""
    for name, page in (("methods", methods), ("datasets", datasets), ("commands", commands)):
        files.append(File.generated(config, f"reference/{name}.md", content="\n".join(page()) + "\n"))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put tables where a page asks for them."""
    for mark, table in (("<!-- shipped plans -->", shipped), ("<!-- renderings -->", renderings)):
        if mark in markdown:
            markdown = markdown.replace(mark, "\n".join(table()))
    return markdown


def methods() -> Iterator[str]:
    """Every method with its settings."""
    facts, problems = method_facts(known_methods().values())
    yield "# Methods\n"
    yield "A method is a scheme with its settings, set by `--set name=value`; `gpbench list methods` prints them.\n"
    for each in facts:
        yield f"## {each['id']}\n"
        paper = f" Paper: {each['paper']}." if each["paper"] else ""
        tasks = ", ".join(TASKS.get(task, task) for task in each["tasks"])
        yield f"{_cell(each['title'])}. For {tasks}.{paper} Version {each['version']}.\n"
        if each["settings"] is None:
            continue
        yield "| setting | default | values | meaning |\n|---|---|---|---|"
        for one in each["settings"]:
            default = "" if one["default"] is None else f"`{one['default']}`"
            yield f"| `{one['name']}` | {default} | {_cell(one['values'])} | {_cell(one['help'])} |"
        yield ""
    for problem in problems:
        yield f"- {_cell(problem)}"


def datasets() -> Iterator[str]:
    """Every data set of the catalogue."""
    facts = dataset_facts(catalogue().entries.values(), lambda _: False)
    yield "# Data sets\n"
    yield "`gpbench list datasets NAME` says of one all that is known: licence, citation, files, notes.\n"
    yield "| id | title | task | rows | inputs | classes | source | papers |\n|---|---|---|---|---|---|---|---|"
    for each in facts:
        classes = len(each["classes"]) or ""
        yield (
            f"| `{each['id']}` | {_cell(each['title'])} | {each['task']} | {each['n'] or ''} | {each['d'] or ''} "
            f"| {classes} | {each['source']} | {', '.join(each['papers'])} |"
        )


def commands() -> Iterator[str]:
    """Every command with its help, as the terminal shows it."""
    group: Any = main
    yield "# Commands\n"
    yield "Settings come from flags, then `GPBENCH_*`, then `gpbench.toml` or `[tool.gpbench]`, then defaults.\n"
    for name in COMMANDS:
        command = group.get_command(click.Context(group), name)
        context = click.Context(command, info_name=f"gpbench {name}", max_content_width=100, terminal_width=100)
        yield f"## gpbench {name}\n"
        yield f"```text\n{command.get_help(context)}\n```\n"
        if isinstance(command, click.Group):
            for part in command.list_commands(context):
                inner = command.get_command(context, part)
                about = click.Context(inner, info_name=f"gpbench {name} {part}", terminal_width=100)
                yield f"```text\n{inner.get_help(about)}\n```\n"


def shipped() -> Iterator[str]:
    """The plans that ship."""
    yield "| plan | title | rendering | data sets |\n|---|---|---|---|"
    for name, path in shipped_files().items():
        plan = read_plan(path, id=name)
        many = ", ".join(plan.datasets[:6]) + (f" and {len(plan.datasets) - 6} more" if len(plan.datasets) > 6 else "")
        yield f"| `{name}` | {_cell(plan.title)} | {plan.render} | {many} |"


def renderings() -> Iterator[str]:
    """What a plan's [figure] can say, for each rendering."""
    yield "| `render` | key | meaning |\n|---|---|---|"
    for name, renderer in RENDERERS.items():
        if not renderer.options:
            yield f"| `{name}` | | |"
        for key, meaning in renderer.options.items():
            yield f"| `{name}` | `{key}` | {_cell(meaning)} |"


def _cell(text: str) -> str:
    """Text within a table: no line breaks, no column marks, nothing that reads as a tag."""
    return re.sub(r"\s+", " ", text).replace("|", "\\|").replace("<", "&lt;")
