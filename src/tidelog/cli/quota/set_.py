"""`tidelog quota set`."""

from typing import Annotated, Final

import typer

from tidelog.cli._clients import connect_admin
from tidelog.cli._options import BootstrapServer, CommandConfig, Format, OutputFormat
from tidelog.cli.errors import CommandError
from tidelog.cli.output import print_json, print_line
from tidelog.cli.quota._entities import OfAddress, OfClientId, OfEveryClientId, OfEveryUser, OfUser, chosen_entity

EXAMPLE: Final = "tidelog quota set --user alice --producer-byte-rate 1048576"


def set_quotas(
    user: OfUser = None,
    user_default: OfEveryUser = False,
    client_id: OfClientId = None,
    client_id_default: OfEveryClientId = False,
    ip: OfAddress = None,
    producer_byte_rate: Annotated[
        float | None, typer.Option("--producer-byte-rate", help="Bytes a second of Produce.", show_default=False)
    ] = None,
    consumer_byte_rate: Annotated[
        float | None, typer.Option("--consumer-byte-rate", help="Bytes a second of Fetch.", show_default=False)
    ] = None,
    request_percentage: Annotated[
        float | None,
        typer.Option("--request-percentage", help="Percent of a broker's time, of 100 in all.", show_default=False),
    ] = None,
    controller_mutation_rate: Annotated[
        float | None,
        typer.Option("--controller-mutation-rate", help="Partitions created and deleted a second.", show_default=False),
    ] = None,
    connection_creation_rate: Annotated[
        float | None,
        typer.Option("--connection-creation-rate", help="Connections a second; with --ip.", show_default=False),
    ] = None,
    bootstrap_server: BootstrapServer = None,
    command_config: CommandConfig = None,
    output: OutputFormat = Format.TEXT,
) -> None:
    """Set quotas of a user, a client id, a client id of a user, or an address; others stay as they are."""
    entity = chosen_entity(user, user_default, client_id, client_id_default, ip)
    given = {
        "producer_byte_rate": producer_byte_rate,
        "consumer_byte_rate": consumer_byte_rate,
        "request_percentage": request_percentage,
        "controller_mutation_rate": controller_mutation_rate,
        "connection_creation_rate": connection_creation_rate,
    }
    limits = {name: value for name, value in given.items() if value is not None}
    if not limits:
        raise CommandError(f"give a limit: {', '.join('--' + name.replace('_', '-') for name in given)}")
    with connect_admin(bootstrap_server, command_config) as admin:
        admin.alter_client_quotas({entity: limits})
    if output is Format.JSON:
        print_json({"entity": entity.parts, "quotas": limits})
        return
    for name, value in limits.items():
        print_line(f"{entity}: {name} is {value:.15g}")
