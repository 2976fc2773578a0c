"""Options that every command talking to a cluster takes, and the client they lead to."""

import sys
from collections.abc import Iterable
from contextlib import AbstractContextManager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import typer

from tidelog.cli._errors import CommandError
from tidelog.client.cluster import ClusterClient
from tidelog.client.connection import DEFAULT_CLIENT_ID, DEFAULT_TIMEOUT_S
from tidelog.config import parse_properties

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
        help="Brokers to start from, host:port[,host:port…].",
        show_default=DEFAULT_BOOTSTRAP,
        metavar="HOST:PORT",
    ),
]
CommandConfig = Annotated[
    Path | None,
    typer.Option(
        "--command-config",
        help="Client settings as a properties file: client.id, request.timeout.ms, bootstrap.servers.",
        metavar="FILE",
    ),
]
OutputFormat = Annotated[Format, typer.Option("--format", help="Text for people, json for programs.")]
TopicName = Annotated[str, typer.Argument(help="Name of the topic.", metavar="TOPIC", show_default=False)]


def connect(bootstrap_server: str | None, command_config: Path | None) -> AbstractContextManager[ClusterClient]:
    """The cluster that the options name: the option or its variable first, then the file, then the default."""
    settings = {} if command_config is None else _client_settings(command_config)
    servers = bootstrap_server or settings.get("bootstrap.servers") or DEFAULT_BOOTSTRAP
    timeout_ms = settings.get("request.timeout.ms")
    return ClusterClient(
        servers,
        client_id=settings.get("client.id", DEFAULT_CLIENT_ID),
        timeout_s=DEFAULT_TIMEOUT_S if timeout_ms is None else _milliseconds("request.timeout.ms", timeout_ms) / 1000,
    )


def _client_settings(path: Path) -> dict[str, str]:
    settings = parse_properties(path.read_text(encoding="utf-8"))
    protocol = settings.get("security.protocol", "PLAINTEXT")
    if protocol != "PLAINTEXT":
        raise CommandError(f"{path}: security.protocol={protocol} is not supported by these commands; use PLAINTEXT")
    known = {"bootstrap.servers", "client.id", "request.timeout.ms", "security.protocol"}
    for name in sorted(settings.keys() - known):
        sys.stderr.write(f"tidelog: {path}: {name} has no meaning here and is ignored\n")
    return settings


def _milliseconds(name: str, text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) == 0:
        raise CommandError(f"{name}={text!r} is not a positive number of milliseconds")
    return int(text)


def parse_assignments(option: str, texts: Iterable[str]) -> dict[str, str]:
    """`name=value` texts of a repeated option."""
    settings: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise CommandError(f"{option} {text!r} is not name=value")
        settings[name.strip()] = value
    return settings


def partitions_or_all(cluster: ClusterClient, topic: str, chosen: list[int] | None) -> list[int]:
    """The partitions that `--partition` named, checked against those the topic has; all of them if it named none."""
    existing = cluster.partitions(topic)
    for partition in chosen or ():
        if partition not in existing:
            raise CommandError(f"topic {topic!r} has no partition {partition}; it has 0 to {len(existing) - 1}")
    return sorted(set(chosen)) if chosen else existing
