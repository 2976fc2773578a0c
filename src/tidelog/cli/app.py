"""The table of commands and how one is run. `tidelog.__main__` is the only caller.

Only the module of the given command is imported; for help or an unknown command, all of them.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Final

import typer

from tidelog.cli._signals import INTERRUPTED_EXIT_CODE
from tidelog.cli.errors import explain

# Command names, and the modules whose `register` adds them.
COMMANDS: Final[Mapping[str, str]] = {
    "serve": "tidelog.cli._serve_help",
    "cluster": "tidelog.cli.cluster",
    "cores": "tidelog.cli.cores",
    "adopt": "tidelog.cli.adopt",
    "topic": "tidelog.cli.topic",
    "reassign": "tidelog.cli.reassign",
    "elect": "tidelog.cli.elect",
    "produce": "tidelog.cli.produce",
    "consume": "tidelog.cli.consume",
    "group": "tidelog.cli.group",
    "share": "tidelog.cli.share",
    "transactions": "tidelog.cli.transactions",
    "export": "tidelog.cli.export",
    "import": "tidelog.cli.import_",
    "offsets": "tidelog.cli.offsets",
    "delay": "tidelog.cli.delay",
    "retry": "tidelog.cli.retry",
    "work": "tidelog.cli.work",
    "delete-records": "tidelog.cli.delete_records",
    "config": "tidelog.cli.config",
    "acl": "tidelog.cli.acl",
    "quota": "tidelog.cli.quota",
    "token": "tidelog.cli.token",
    "user": "tidelog.cli.user",
    "features": "tidelog.cli.features",
    "security": "tidelog.cli.security",
    "log": "tidelog.cli.log",
    "perf": "tidelog.cli.perf",
    "pipeline": "tidelog.cli.pipeline",
    "table": "tidelog.cli.table",
    "console": "tidelog.cli.console",
    "mcp": "tidelog.cli.mcp",
    "profile": "tidelog.cli.profile",
    "completion": "tidelog.cli.completion",
    "help": "tidelog.cli.help",
    "from-kafka": "tidelog.cli.from_kafka",
    "doctor": "tidelog.cli.doctor",
    "top": "tidelog.cli.top",
    "run": "tidelog.cli.run",
    "demo": "tidelog.cli.demo",
}


def main(arguments: Sequence[str]) -> int:
    """Run the command that `arguments` name and return the exit code."""
    try:
        if "_TIDELOG_COMPLETE" in os.environ:
            from typer.completion import completion_init  # type: ignore[attr-defined]

            completion_init()  # the shells that `tidelog completion` writes scripts for
        application = build(arguments[0] if arguments else _word_to_complete())
        application(args=list(arguments) or ["--help"], prog_name="tidelog")
    except SystemExit as finished:
        return _exit_code(finished)
    except KeyboardInterrupt:
        return INTERRUPTED_EXIT_CODE
    except Exception as error:
        message = explain(error)
        if message is None:
            raise
        sys.stderr.write(f"tidelog: {message}\n")
        return 1
    return 0


def build(word: str | None = None) -> typer.Typer:
    """The application with only the command `word`, or with every command if `word` is unknown."""
    application = typer.Typer(
        name="tidelog",
        help="A Kafka-compatible event log: run brokers, and use any Kafka cluster.",
        epilog="Example: tidelog serve --set log.dirs=/tmp/tidelog. From Kafka: tidelog from-kafka kafka-topics.sh",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    application.callback()(_root)
    for name in [word] if word in COMMANDS else COMMANDS:
        import_module(COMMANDS[str(name)]).register(application)
    return application


def _word_to_complete() -> str | None:
    """The command of the line that a shell asks to complete, unless that is what is typed; None in no shell's name."""
    line = os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS") or ""
    words = line.split()
    return words[1] if len(words) > 2 or (len(words) == 2 and line[-1].isspace()) else None


def _root(
    version: bool = typer.Option(False, "--version", help="Print the version and exit."),
) -> None:
    """Only adds --version to the help: `tidelog.__main__` handles the option itself, so `version` is False here."""
    assert not version


def _exit_code(finished: SystemExit) -> int:
    code = finished.code
    return code if isinstance(code, int) else int(code is not None)
