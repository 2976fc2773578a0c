"""`tidelog console`: the web console, until SIGTERM or SIGINT."""

import sys
from pathlib import Path
from typing import Annotated, Final

import typer

from tidelog.cli._clients import Connection
from tidelog.cli._options import BootstrapServer, CommandConfig
from tidelog.cli._verbs import verb
from tidelog.cli.errors import CommandError
from tidelog.client.aio.consumer.settings import ConsumerSettings

EXAMPLE: Final = "tidelog console --bootstrap-server broker-1:9092"


def console(
    bootstrap_server: BootstrapServer = None,
    command_config: CommandConfig = None,
    listen: Annotated[str, typer.Option(help="Where to serve pages.", metavar="HOST:PORT")] = "127.0.0.1:8080",
    profile: Annotated[
        list[str] | None,
        typer.Option(
            help="A cluster by its profile; several are shown side by side. `tidelog help profiles`.",
            show_default="TIDELOG_PROFILE, else the one in use",
            metavar="NAME",
        ),
    ] = None,
    token: Annotated[
        str | None,
        typer.Option(
            help="Log in with this token, of at least 16 characters. The variable keeps it out of process lists.",
            envvar="TIDELOG_CONSOLE_TOKEN",
            metavar="TOKEN",
            show_default=False,
            show_envvar=True,
        ),
    ] = None,
    allowed_host: Annotated[
        list[str] | None,
        typer.Option(help="A host name under which browsers reach the console; may be repeated.", metavar="NAME"),
    ] = None,
    schema_registry: Annotated[
        str | None,
        typer.Option(
            help="Schema registry of the cluster, to show Avro and Protobuf.",
            envvar="TIDELOG_SCHEMA_REGISTRY",
            show_default="schema.registry.url of the profile",
            metavar="URL",
        ),
    ] = None,
    tls_certificate: Annotated[
        Path | None, typer.Option(help="Certificate chain in PEM: serve pages with TLS.", metavar="FILE")
    ] = None,
    tls_key: Annotated[Path | None, typer.Option(help="Its private key in PEM.", metavar="FILE")] = None,
    with_stdin: Annotated[bool, typer.Option("--with-stdin", hidden=True)] = False,
) -> None:
    """Serve the web console of a cluster. Without a login it listens on loopback addresses only.

    People log in with --token; or as users of the cluster, if --command-config has security.protocol=SASL_… and no
    sasl.jaas.config.
    """
    try:
        from tidelog.console.server import run
        from tidelog.console.settings import ClusterSettings, ConsoleError, ConsoleSettings, Listen, parse_listen
    except ModuleNotFoundError as error:
        raise CommandError(f"the console needs {error.name}: pip install 'tidelog[console]'") from error

    def announce(address: Listen) -> None:
        scheme = "https" if tls_certificate is not None else "http"
        sys.stdout.write(f"tidelog console ready {scheme}://{address}\n")
        sys.stdout.flush()

    names: list[str | None] = [*profile] if profile else [None]
    connections = [Connection(bootstrap_server, command_config, each) for each in names]
    if len(connections) > 1 and (bootstrap_server or command_config or schema_registry):
        raise CommandError(
            "several profiles name several clusters: leave out --bootstrap-server, --command-config and "
            "--schema-registry, and their variables"
        )
    clusters = tuple(
        ClusterSettings(
            client=each.settings(ConsumerSettings),
            name=each.profile or "",
            schema_registry=schema_registry or each.registry_url,
        )
        for each in connections
    )
    try:
        settings = ConsoleSettings(
            clusters=clusters,
            listen=parse_listen(listen),
            token=token,
            allowed_hosts=tuple(allowed_host or ()),
            tls_certificate=None if tls_certificate is None else str(tls_certificate),
            tls_key=None if tls_key is None else str(tls_key),
        )
        run(settings, announce, ends_with_stdin=with_stdin)
    except ConsoleError as error:
        raise CommandError(str(error)) from error


def register(application: typer.Typer) -> None:
    """Add the command."""
    verb(application, "console", console, EXAMPLE)
