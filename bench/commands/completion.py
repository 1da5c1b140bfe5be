"""`wingspan completion`: a script that lets a shell complete commands, options and suites.

In: the name of a shell. Out: the script, on standard output.
"""

from __future__ import annotations

import click


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion script: eval "$(wingspan completion bash)"."""
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"no completion for {shell}")
    click.echo(kind(ctx.find_root().command, {}, "wingspan", "_WINGSPAN_COMPLETE").source())
