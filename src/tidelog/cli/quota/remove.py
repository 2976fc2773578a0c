"""`tidelog quota remove`."""

from typing import Annotated, Final

import typer

from tidelog.cli._clients import connect_admin
from tidelog.cli._options import BootstrapServer, CommandConfig, Format, OutputFormat
from tidelog.cli.output import print_json, print_line
from tidelog.cli.quota._entities import OfAddress, OfClientId, OfEveryClientId, OfEveryUser, OfUser, chosen_entity

EXAMPLE: Final = "tidelog quota remove producer_byte_rate --user alice"


def remove(
    names: Annotated[
        list[str] | None, typer.Argument(help="Quotas to remove; by default all of the entity.", metavar="NAME…")
    ] = None,
    user: OfUser = None,
    user_default: OfEveryUser = False,
    client_id: OfClientId = None,
    client_id_default: OfEveryClientId = False,
    ip: OfAddress = None,
    bootstrap_server: BootstrapServer = None,
    command_config: CommandConfig = None,
    output: OutputFormat = Format.TEXT,
) -> None:
    """Remove quotas of a user, a client id, a client id of a user, or an address."""
    entity = chosen_entity(user, user_default, client_id, client_id_default, ip)
    with connect_admin(bootstrap_server, command_config) as admin:
        wanted = names or sorted(admin.describe_client_quotas().get(entity, {}))
        if wanted:
            admin.alter_client_quotas({entity: dict.fromkeys(wanted)})
    if output is Format.JSON:
        print_json({"entity": entity.parts, "removed": wanted})
        return
    if not wanted:
        print_line(f"{entity}: no quota is set")
    for name in wanted:
        print_line(f"{entity}: {name} is removed")
