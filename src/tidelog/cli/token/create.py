"""`tidelog token create`."""

from typing import Annotated, Final

import typer

from tidelog.cli._clients import connect_admin
from tidelog.cli._options import BootstrapServer, CommandConfig, Format, OutputFormat
from tidelog.cli.output import print_json, print_line
from tidelog.cli.token._print import as_json, time_text

EXAMPLE: Final = "tidelog token create --renewer User:scheduler --command-config alice.properties"


def create(
    renewers: Annotated[
        list[str] | None,
        typer.Option("--renewer", help="A principal that may renew the token; may be repeated.", show_default=False),
    ] = None,
    owner: Annotated[
        str | None, typer.Option("--owner", help="Another owner than yourself.", show_default=False)
    ] = None,
    max_lifetime_s: Annotated[
        float | None,
        typer.Option("--max-lifetime-s", help="Longest life, in seconds.", show_default="the broker's own"),
    ] = None,
    bootstrap_server: BootstrapServer = None,
    command_config: CommandConfig = None,
    output: OutputFormat = Format.TEXT,
) -> None:
    """Create a token and print it with its secret, which is not shown again but by `tidelog token list`."""
    with connect_admin(bootstrap_server, command_config) as admin:
        token = admin.create_delegation_token(renewers=renewers or (), owner=owner, max_lifetime_s=max_lifetime_s)
    if output is Format.JSON:
        print_json(as_json(token))
        return
    print_line(f"token id  {token.token_id}")
    print_line(f"hmac      {token.hmac}")
    print_line(f"owner     {token.owner}")
    print_line(f"expires   {time_text(token.expires_ms)}, at the latest {time_text(token.max_ms)}")
