"""`tidelog quota list`."""

from typing import Final

from tidelog.cli._clients import connect_admin
from tidelog.cli._options import BootstrapServer, CommandConfig, Format, OutputFormat
from tidelog.cli.output import print_json, print_line, print_table

EXAMPLE: Final = "tidelog quota list"


def list_quotas(
    bootstrap_server: BootstrapServer = None,
    command_config: CommandConfig = None,
    output: OutputFormat = Format.TEXT,
) -> None:
    """List all quotas."""
    with connect_admin(bootstrap_server, command_config) as admin:
        found = admin.describe_client_quotas()
    if output is Format.JSON:
        print_json([{"entity": entity.parts, "quotas": values} for entity, values in found.items()])
    elif found:
        rows = [
            (str(entity), name, int(value) if value.is_integer() else value)
            for entity, values in found.items()
            for name, value in values.items()
        ]
        print_table(("OF", "QUOTA", "LIMIT"), sorted(rows))
    else:
        print_line("No quota is set.")
