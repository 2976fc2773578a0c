"""`tidelog user delete`."""

from typing import Final

from tidelog.cli._clients import connect_admin
from tidelog.cli._options import BootstrapServer, CommandConfig, Format, OutputFormat
from tidelog.cli.output import print_json, print_line
from tidelog.cli.user._options import Mechanism, OfMechanism, UserName
from tidelog.client.aio.admin.types import ScramCredentialDeletion

EXAMPLE: Final = "tidelog user delete alice --mechanism SCRAM-SHA-512"


def delete(
    user: UserName,
    mechanism: OfMechanism = Mechanism.SCRAM_SHA_512,
    bootstrap_server: BootstrapServer = None,
    command_config: CommandConfig = None,
    output: OutputFormat = Format.TEXT,
) -> None:
    """Delete a user's credential. Connections that are open stay, until their sessions end."""
    with connect_admin(bootstrap_server, command_config) as admin:
        admin.alter_user_scram_credentials([ScramCredentialDeletion(user, mechanism.value)])
    if output is Format.JSON:
        print_json({"deleted": user, "mechanism": mechanism.value})
    else:
        print_line(f"Deleted the {mechanism.value} credential of user {user}.")
