"""Registers verbs under their noun: the function, and the example at the end of its help."""

from collections.abc import Callable
from typing import Any

import typer
from typer.core import TyperCommand


def noun(application: typer.Typer, name: str, sentence: str) -> typer.Typer:
    """A command group for verbs; without a verb it prints its help."""
    group = typer.Typer(no_args_is_help=True, help=sentence, context_settings={"help_option_names": ["-h", "--help"]})
    application.add_typer(group, name=name)
    return group


def verb(
    group: typer.Typer, name: str, action: Callable[..., Any], example: str, parser: type[TyperCommand] | None = None
) -> None:
    """Add `action` as `name`; its docstring opens the help, `example` ends it. `parser` reads its words another way."""
    group.command(
        name, cls=parser, epilog=f"Example: {example}", context_settings={"help_option_names": ["-h", "--help"]}
    )(action)
