"""Adds `serve` to the list of commands. `tidelog.__main__` runs `serve` itself without importing this module."""

import typer

from tidelog.cli import serve


def register(application: typer.Typer) -> None:
    """Add the command to the list."""
    application.command("serve", context_settings={"ignore_unknown_options": True, "allow_extra_args": True})(_serve)


def _serve(context: typer.Context) -> None:
    """Run one broker."""
    raise typer.Exit(serve.main(context.args))
