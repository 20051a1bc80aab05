"""The command line: a group whose commands are imported when they are called.

``gpbench --help`` must answer at once, so nothing but click is imported here; numpy, pandas, scikit-learn and
matplotlib would cost a second or more. The help page is written from the table below; each command lives in a module
``gpbench.cli.NAME`` that exposes ``command``.

Exit codes: 0 all well, 1 an error, 2 wrong usage, 3 data not to be had, 4 some cells failed, 130 interrupted.
"""

from __future__ import annotations

import errno
import io
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

from gpbench import __version__

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["COMMANDS", "LazyGroup", "main"]

#: Name -> (module, short help). A new command is one more line, in the order of the help page.
COMMANDS: dict[str, tuple[str, str]] = {
    "list": ("gpbench.cli.list", "Show methods with their settings, data sets and plans."),
    "fetch": ("gpbench.cli.fetch", "Download, check and prepare data sets."),
    "run": ("gpbench.cli.run", "Run methods on data sets, cell by cell, under one clock."),
    "fit": ("gpbench.cli.fit", "Train one model on all rows of a file, to predict others."),
    "predict": ("gpbench.cli.predict", "Probabilities for new rows, by a model or a stored cell."),
    "reproduce": ("gpbench.cli.reproduce", "Run a paper's table or figure, or a plan of your own."),
    "report": ("gpbench.cli.report", "Make tables and curves from stored results."),
    "compare": ("gpbench.cli.compare", "Set methods against one another, paired over splits."),
    "results": ("gpbench.cli.results", "Give every cell, stored and reference, as one tidy table."),
    "check": ("gpbench.cli.check", "Try what every scheme must hold: settings read, bits, stopping, known answers."),
    "truth": ("gpbench.cli.truth", "Set methods beside reference posteriors: means, spreads, evidence."),
    "peers": ("gpbench.cli.peers", "Install and show environments for rivals from other libraries."),
    "plan": ("gpbench.cli.plan", "Write a plan of your own to begin with."),
    "completion": ("gpbench.cli.completion", "Print what bash, zsh or fish needs to complete commands and names."),
    "doctor": ("gpbench.cli.doctor", "Show versions, BLAS, threads and folders: what a bug report needs."),
}


class LazyGroup(click.Group):
    """A group that imports a command on demand and turns errors into messages and exit codes.

    Parameters
    ----------
    table : dict
        Name -> (module, short help); the module's ``command`` is the command.
    **options
        As for :class:`click.Group`.
    """

    def __init__(self, *, table: dict[str, tuple[str, str]], **options: object) -> None:
        super().__init__(**options)  # type: ignore[arg-type]  # click's own keywords, handed on by its decorator
        self.table = table

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  # click's signature
        """Names in the order of the table."""
        return list(self.table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002  # click's signature
        """Import a command; None when the table does not know it."""
        if cmd_name not in self.table:
            return None
        module, _ = self.table[cmd_name]
        command = import_module(module).command
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the list of commands from the table, without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, about) for name, (_, about) in self.table.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a command, or raise with the nearest names."""
        if args[0] not in self.table and not args[0].startswith("-") and not ctx.resilient_parsing:
            from gpbench.errors import unknown_name  # noqa: PLC0415  # not needed for --help

            raise unknown_name("command", args[0], self.table)
        return super().resolve_command(ctx, args)

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,  # noqa: FBT001, FBT002  # click's signature
        **extra: Any,
    ) -> Any:
        """Run as a program: with streams that can be written, and messages that pass :mod:`gpbench.terminal`."""
        if not standalone_mode:
            return super().main(args, prog_name, complete_var, standalone_mode, **extra)
        from gpbench.cli.interrupts import heed_the_first  # noqa: PLC0415  # the program alone takes signals and prints
        from gpbench.terminal import echo, open_streams, warn_on_one_line  # noqa: PLC0415

        heed_the_first()
        open_streams()
        warn_on_one_line()
        try:
            code = super().main(args, prog_name, complete_var, standalone_mode=False, **extra)
        except click.ClickException as error:  # wrong usage, whose message repeats what was typed
            words = io.StringIO()
            error.show(words)
            echo(words.getvalue(), err=True, nl=False)
            code = error.exit_code
        except OSError as error:  # of --help and --version, which click prints itself
            echo(_system_words(error), err=True)
            code = 1
        except (click.Abort, KeyboardInterrupt):  # Ctrl-C before there is a command
            code = 130
        sys.exit(code if isinstance(code, int) else 0)

    def invoke(self, ctx: click.Context) -> object:
        """Run a command; gpbench's own errors, the system's, and Ctrl-C end with a message and an exit code."""
        from gpbench.errors import GpbenchError  # noqa: PLC0415  # not needed for --help
        from gpbench.terminal import echo  # noqa: PLC0415

        try:
            return super().invoke(ctx)
        except GpbenchError as error:
            echo(f"gpbench: {error}", err=True)
            ctx.exit(error.exit_code)
        except OSError as error:
            if error.errno == errno.EPIPE:  # the reader of a pipe has left; click ends the program without a word
                raise
            echo(_system_words(error), err=True)
            ctx.exit(1)
        except KeyboardInterrupt:
            from gpbench.cli.interrupts import is_kept  # noqa: PLC0415

            echo(f"\ngpbench: interrupted{is_kept(ctx.invoked_subcommand)}", err=True)
            ctx.exit(130)


def _system_words(error: OSError) -> str:
    from gpbench.errors import reason  # noqa: PLC0415  # not needed for --help

    return f"gpbench: cannot read or write {error.filename or 'the output'}: {reason(error)}"


@click.group(
    cls=LazyGroup, table=COMMANDS, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(__version__, prog_name="gpbench", message="%(prog)s %(version)s")
def main() -> None:
    """Measure how fast and how well sparse Gaussian process classifiers learn.

    Runs inference schemes on the same splits under the same clock, stores every result, and makes tables and curves of
    them. Start with `gpbench list`, then `gpbench run --method x-gpc --method linear --dataset digits-odd-even`.
    """
