"""`serve` in the list of commands. `tidelog.__main__` runs the command itself before this module could be imported."""

import typer

from tidelog.cli import serve


def register(application: typer.Typer) -> None:
    """Add the word to the list."""
    application.command("serve", context_settings={"ignore_unknown_options": True, "allow_extra_args": True})(_serve)


def _serve(context: typer.Context) -> None:
    """Run one broker."""
    raise typer.Exit(serve.main(context.args))
