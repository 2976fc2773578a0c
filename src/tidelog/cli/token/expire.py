"""`tidelog token expire`."""

from typing import Annotated, Final

import typer

from tidelog.cli._clients import connect_admin
from tidelog.cli._options import BootstrapServer, CommandConfig, Format, OutputFormat
from tidelog.cli.output import print_json, print_line
from tidelog.cli.token._print import time_text

EXAMPLE: Final = 'tidelog token expire --hmac "$HMAC" --command-config alice.properties'


def expire(
    hmac: Annotated[str, typer.Option("--hmac", help="The secret of the token, in base64.")],
    period_s: Annotated[
        float | None, typer.Option("--period-s", help="Seconds from now.", show_default="at once")
    ] = None,
    bootstrap_server: BootstrapServer = None,
    command_config: CommandConfig = None,
    output: OutputFormat = Format.TEXT,
) -> None:
    """End a token at once, or after a while."""
    with connect_admin(bootstrap_server, command_config) as admin:
        expires_ms = admin.expire_delegation_token(hmac, period_s=period_s)
    if output is Format.JSON:
        print_json({"expires_ms": expires_ms})
        return
    print_line(f"the token expires {time_text(expires_ms)}")
