"""Registers verbs under their noun: the function, and the example at the end of its help.

What verbs have in common stands here once. A parameter `connection` becomes the options that name a cluster. A verb
that returns a `Result` gets `--format`, is printed that way, and ends with the result's exit code; one that prints by
itself in some cases returns None then, and has a parameter `output` if it must know the format.
"""

import functools
from collections.abc import Callable
from inspect import Parameter, Signature, signature
from typing import Any, Final

import typer
from typer.core import TyperCommand

from tidelog.cli._clients import Connection
from tidelog.cli._options import BootstrapServer, CommandConfig, Format, OutputFormat
from tidelog.cli.output import Result

_SHARED: Final = ("connection", "output")
_HELP: Final = {"help_option_names": ["-h", "--help"]}


def noun(application: typer.Typer, name: str, sentence: str) -> typer.Typer:
    """A command group for verbs; without a verb it prints its help."""
    group = typer.Typer(no_args_is_help=True, help=sentence, context_settings=_HELP)
    application.add_typer(group, name=name)
    return group


def verb(
    group: typer.Typer, name: str, action: Callable[..., Any], example: str, parser: type[TyperCommand] | None = None
) -> None:
    """Add `action` as `name`; its docstring opens the help, `example` ends it. `parser` reads its words another way."""
    group.command(name, cls=parser, epilog=f"Example: {example}", context_settings=_HELP)(_command(action))


def _command(action: Callable[..., Any]) -> Callable[..., None]:
    """The function that typer sees, whose parameters are options and nothing else."""
    own = signature(action, eval_str=True)
    connects = "connection" in own.parameters
    has_result = own.return_annotation in (Result, Result | None)
    reads_format = "output" in own.parameters
    shared = {
        **({"bootstrap_server": (BootstrapServer, None), "command_config": (CommandConfig, None)} if connects else {}),
        **({"output": (OutputFormat, Format.TEXT)} if has_result or reads_format else {}),
    }
    parameters = [
        *(each.replace(kind=Parameter.KEYWORD_ONLY) for each in own.parameters.values() if each.name not in _SHARED),
        *(
            Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
            for name, (annotation, default) in shared.items()
        ),
    ]

    @functools.wraps(action)
    def run(**given: Any) -> None:
        if connects:
            given["connection"] = Connection(given.pop("bootstrap_server"), given.pop("command_config"))
        if not has_result:
            action(**given)
            return
        output = given["output"] if reads_format else given.pop("output")
        result: Result | None = action(**given)
        if result is None:
            return
        result.show(output)
        if result.error is not None:
            raise result.error
        if result.exit_code:
            raise typer.Exit(result.exit_code)

    run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    return run
