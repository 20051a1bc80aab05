"""``gpbench completion``: what a shell needs to complete commands, options and names."""

from __future__ import annotations

import click

from gpbench.terminal import echo

__all__ = ["command"]

SHELLS = ("bash", "zsh", "fish")


@click.command(name="completion")
@click.argument("shell", type=click.Choice(SHELLS))
def command(*, shell: str) -> None:
    """Print what SHELL needs to complete gpbench's commands, options and names.

    \b
    bash   eval "$(gpbench completion bash)"              in ~/.bashrc
    zsh    eval "$(gpbench completion zsh)"               in ~/.zshrc
    fish   gpbench completion fish > ~/.config/fish/completions/gpbench.fish
    """  # noqa: D301  # click's own mark for lines that must not be wrapped
    from click.shell_completion import get_completion_class  # noqa: PLC0415  # needed here alone

    from gpbench.cli import main  # noqa: PLC0415  # which imports this module

    kind = get_completion_class(shell)
    assert kind is not None
    made = kind(main, {}, "gpbench", "_GPBENCH_COMPLETE")
    echo(made.source_template % made.source_vars(), content=True)
