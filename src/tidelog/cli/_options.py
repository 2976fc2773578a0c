"""Options of every command that connects to a cluster."""

from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import typer

from tidelog.cli.errors import CommandError

DEFAULT_BOOTSTRAP: Final = "127.0.0.1:9092"


class Format(StrEnum):
    """How results are printed."""

    TEXT = "text"
    JSON = "json"


BootstrapServer = Annotated[
    str | None,
    typer.Option(
        "--bootstrap-server",
        envvar="TIDELOG_BOOTSTRAP_SERVERS",
        help="Brokers to connect to first, host:port[,host:port…].",
        show_default=DEFAULT_BOOTSTRAP,
        metavar="HOST:PORT",
    ),
]
CommandConfig = Annotated[
    Path | None,
    typer.Option(
        "--command-config",
        help="Properties file with client settings, under Kafka's names.",
        metavar="FILE",
    ),
]
ProfileOption = Annotated[
    str | None,
    typer.Option(
        "--profile",
        help="Connect with this profile: `tidelog help profiles`.",
        show_default="TIDELOG_PROFILE, else the one in use",
        metavar="NAME",
    ),
]
OutputFormat = Annotated[Format, typer.Option("--format", help="Text for people, json for programs.")]
TopicName = Annotated[str, typer.Argument(help="Name of the topic.", metavar="TOPIC", show_default=False)]


def parse_assignments(option: str, texts: Iterable[str]) -> dict[str, str]:
    """Parse the `name=value` values of a repeated option."""
    settings: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise CommandError(f"{option} {text!r} is not name=value")
        settings[name.strip()] = value
    return settings
