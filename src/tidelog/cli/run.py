"""`tidelog run -- COMMAND`: a command with a Kafka of its own, as test suites in CI want it.

The command finds the broker's address in its environment. The broker is new, on a free port, and gone with its data
when the command ends; the exit code is the command's.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Annotated, Final

import typer

from tidelog.cli._verbs import verb
from tidelog.config import ConfigError

EXAMPLE: Final = "tidelog run --topic orders:6 -- pytest -q tests/"

_ADDRESS_VARIABLES: Final = ("TIDELOG_BOOTSTRAP_SERVERS", "KAFKA_BOOTSTRAP_SERVERS")
_REGISTRY_VARIABLE: Final = "SCHEMA_REGISTRY_URL"
_NOT_FOUND: Final = 127
"""The exit code of shells for a command that does not exist."""


def register(application: typer.Typer) -> None:
    """Add the command."""
    verb(application, "run", run, EXAMPLE)


def run(
    command: Annotated[list[str], typer.Argument(help="The command and its arguments, after --.", metavar="COMMAND…")],
    brokers: Annotated[int, typer.Option(help="1, or a cluster of so many processes.", min=1, max=9)] = 1,
    topic: Annotated[
        list[str] | None, typer.Option(help="Create a topic first: NAME or NAME:PARTITIONS.", metavar="NAME[:N]")
    ] = None,
    setting: Annotated[
        list[str] | None, typer.Option("--set", help="A setting of the brokers.", metavar="NAME=VALUE")
    ] = None,
    variable: Annotated[
        list[str] | None,
        typer.Option(help=f"Put the address also into this variable, beside {' and '.join(_ADDRESS_VARIABLES)}."),
    ] = None,
    registry: Annotated[bool, typer.Option(help=f"Start a schema registry, too: {_REGISTRY_VARIABLE}.")] = False,
) -> None:
    """Run a command with a Kafka of its own, and end with its exit code."""
    from tidelog.testing import Broker, Cluster, SchemaRegistryServer

    config = dict(_named_value(each) for each in setting or ())
    topics = [_topic(each) for each in topic or ()]
    with ExitStack() as stack:
        kafka: Broker | Cluster = Broker(config, process=True) if brokers == 1 else Cluster(brokers, config)
        stack.enter_context(kafka)
        for name, partitions in topics:
            kafka.create_topic(name, partitions)
        environment = dict.fromkeys((*_ADDRESS_VARIABLES, *(variable or ())), kafka.bootstrap_servers)
        if registry:
            environment[_REGISTRY_VARIABLE] = stack.enter_context(SchemaRegistryServer()).url
        code = _exit_code(command, {**os.environ, **environment})
    raise typer.Exit(code)


def _exit_code(command: Sequence[str], environment: dict[str, str]) -> int:
    try:
        process = subprocess.Popen(command, env=environment)
    except FileNotFoundError:
        sys.stderr.write(f"tidelog: {command[0]}: no such command\n")
        return _NOT_FOUND
    with _passing_signals_to(process):
        code = process.wait()
    return code if code >= 0 else 128 - code


@contextmanager
def _passing_signals_to(process: "subprocess.Popen[bytes]") -> Iterator[None]:
    """The command ends first, and the broker after it. ^C reaches both, so the terminal's is not passed on."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    signal.signal(signal.SIGINT, lambda _number, _frame: None)
    signal.signal(signal.SIGTERM, lambda number, _frame: process.send_signal(number))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _named_value(text: str) -> tuple[str, str]:
    name, found, value = text.partition("=")
    if not found or not name:
        raise ConfigError(f"--set {text!r} is not of the form name=value")
    return name.strip(), value


def _topic(text: str) -> tuple[str, int]:
    name, _, count = text.partition(":")
    if not name or (":" in text and not (count.isascii() and count.isdigit() and 0 < int(count) <= 100_000)):
        raise ConfigError(f"--topic {text!r} is not of the form NAME or NAME:PARTITIONS")
    return name, int(count or 1)
