"""`tidelog token list`."""

from typing import Annotated, Final

import typer

from tidelog.cli._clients import connect_admin
from tidelog.cli._options import BootstrapServer, CommandConfig, Format, OutputFormat
from tidelog.cli.output import print_json, print_line
from tidelog.cli.token._print import as_json, print_tokens

EXAMPLE: Final = "tidelog token list --owner User:alice --command-config alice.properties"


def list_tokens(
    owners: Annotated[
        list[str] | None, typer.Option("--owner", help="Of this owner only; may be repeated.", show_default="all")
    ] = None,
    bootstrap_server: BootstrapServer = None,
    command_config: CommandConfig = None,
    output: OutputFormat = Format.TEXT,
) -> None:
    """List the tokens that you may see. Their secrets are in the JSON only."""
    with connect_admin(bootstrap_server, command_config) as admin:
        found = admin.describe_delegation_tokens(owners)
    if output is Format.JSON:
        print_json([as_json(each) for each in found])
    elif found:
        print_tokens(found)
    else:
        print_line("No token.")
