"""`tidelog user list`."""

from typing import Final

from tidelog.cli._clients import connect_admin
from tidelog.cli._options import BootstrapServer, CommandConfig, Format, OutputFormat
from tidelog.cli.output import print_json, print_table

EXAMPLE: Final = "tidelog user list"


def list_users(
    bootstrap_server: BootstrapServer = None, command_config: CommandConfig = None, output: OutputFormat = Format.TEXT
) -> None:
    """List users and the SCRAM mechanisms they have credentials for."""
    with connect_admin(bootstrap_server, command_config) as admin:
        users = admin.describe_user_scram_credentials()
    if output is Format.JSON:
        print_json(users)
    else:
        rows = [(user, name, count) for user, found in sorted(users.items()) for name, count in found.items()]
        print_table(("user", "mechanism", "iterations"), rows)
