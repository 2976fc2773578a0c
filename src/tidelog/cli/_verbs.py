"""Registers verbs under their noun: the function, and the example at the end of its help.

What verbs have in common stands here once. A parameter `connection` becomes the options that name a cluster, and an
error about a topic or group that there is not names the one that was probably meant. Parameters that are topics, groups
and profiles complete in a shell. A verb that returns a `Result` gets `--format`, is printed that way, and ends with the
result's exit code; one that prints by itself in some cases returns None then, and has a parameter `output` if it must
know the format. One that only ends with a result shows on a terminal that it is at work, once it takes more than a
second.
"""

import functools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from copy import copy
from inspect import Parameter, Signature, signature
from typing import Annotated, Any, Final, get_args, get_origin

import typer
from typer.core import TyperCommand

from tidelog.cli._clients import Connection
from tidelog.cli._names import COMPLETERS, with_advice
from tidelog.cli._options import BootstrapServer, CommandConfig, Format, OutputFormat, ProfileOption
from tidelog.cli.output import Result
from tidelog.cli.progress import at_work

_SHARED: Final = ("connection", "output")
_CONNECTING: Final = {
    "bootstrap_server": (BootstrapServer, None),
    "command_config": (CommandConfig, None),
    "profile": (ProfileOption, None),
}
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
        **(_CONNECTING if connects else {}),
        **({"output": (OutputFormat, Format.TEXT)} if has_result or reads_format else {}),
    }
    parameters = [
        *(_completing(each) for each in own.parameters.values() if each.name not in _SHARED),
        *(
            _completing(Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation))
            for name, (annotation, default) in shared.items()
        ),
    ]
    shows_work = own.return_annotation is Result

    @functools.wraps(action)
    def run(**given: Any) -> None:
        words = dict(given)
        if connects:
            given["connection"] = Connection(*(given.pop(name) for name in _CONNECTING))
        advised = _advising(given["connection"], words) if connects else nullcontext()
        if not has_result:
            with advised:
                action(**given)
            return
        output = given["output"] if reads_format else given.pop("output")
        with advised:
            with at_work() if shows_work else nullcontext():
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


@contextmanager
def _advising(connection: Connection, words: Mapping[str, Any]) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        advised = with_advice(error, connection, words)
        if advised is error:
            raise
        raise advised from error


def _completing(parameter: Parameter) -> Parameter:
    """The parameter as an option, which completes if it is a topic, a group or a profile."""
    annotation = parameter.annotation
    completer = COMPLETERS.get(parameter.name)
    if completer is not None and get_origin(annotation) is Annotated:
        kind, declared = get_args(annotation)
        if declared.autocompletion is None:
            declared = copy(declared)
            declared.autocompletion = completer
            annotation = Annotated[kind, declared]
    return parameter.replace(kind=Parameter.KEYWORD_ONLY, annotation=annotation)
