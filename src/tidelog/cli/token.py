"""`tidelog token`: delegation tokens, with which other clients log in as their owner."""

from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from tidelog.cli._clients import Connection
from tidelog.cli._verbs import noun, verb
from tidelog.cli.output import Result, Table
from tidelog.client.aio.admin.types import DelegationToken


def register(application: typer.Typer) -> None:
    """Add the noun and its verbs."""
    token = noun(application, "token", "Create, list, renew and expire delegation tokens.")
    verb(token, "create", create, "tidelog token create --renewer User:scheduler --command-config alice.properties")
    verb(token, "list", list_tokens, "tidelog token list --owner User:alice --command-config alice.properties")
    verb(token, "renew", renew, 'tidelog token renew --hmac "$HMAC" --command-config alice.properties')
    verb(token, "expire", expire, 'tidelog token expire --hmac "$HMAC" --command-config alice.properties')


def _time(epoch_ms: int) -> str:
    """A time as people read it, in UTC."""
    return datetime.fromtimestamp(epoch_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _as_json(token: DelegationToken) -> dict[str, Any]:
    """Everything, the secret too."""
    return {**token._asdict(), "renewers": list(token.renewers)}


def create(
    connection: Connection,
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
) -> Result:
    """Create a token and print it with its secret, which is not shown again but by `tidelog token list`."""
    with connection.admin() as admin:
        token = admin.create_delegation_token(renewers=renewers or (), owner=owner, max_lifetime_s=max_lifetime_s)
    lines = (
        f"token id  {token.token_id}",
        f"hmac      {token.hmac}",
        f"owner     {token.owner}",
        f"expires   {_time(token.expires_ms)}, at the latest {_time(token.max_ms)}",
    )
    return Result(_as_json(token), "\n".join(lines))


def list_tokens(
    connection: Connection,
    owners: Annotated[
        list[str] | None, typer.Option("--owner", help="Of this owner only; may be repeated.", show_default="all")
    ] = None,
) -> Result:
    """List the tokens that you may see. Their secrets are in the JSON only."""
    with connection.admin() as admin:
        found = admin.describe_delegation_tokens(owners)
    rows = [(each.token_id, each.owner, ", ".join(each.renewers), _time(each.expires_ms)) for each in found]
    table = Table(headings=("TOKEN-ID", "OWNER", "RENEWERS", "EXPIRES"), rows=rows, nothing="No token.")
    return Result(list(map(_as_json, found)), table)


def renew(
    connection: Connection,
    hmac: Annotated[str, typer.Option("--hmac", help="The secret of the token, in base64.")],
    period_s: Annotated[
        float | None, typer.Option("--period-s", help="Seconds from now.", show_default="the broker's own period")
    ] = None,
) -> Result:
    """Let a token expire later, at its longest life at most."""
    with connection.admin() as admin:
        expires_ms = admin.renew_delegation_token(hmac, period_s=period_s)
    return Result({"expires_ms": expires_ms}, f"the token expires {_time(expires_ms)}")


def expire(
    connection: Connection,
    hmac: Annotated[str, typer.Option("--hmac", help="The secret of the token, in base64.")],
    period_s: Annotated[
        float | None, typer.Option("--period-s", help="Seconds from now.", show_default="at once")
    ] = None,
) -> Result:
    """End a token at once, or after a while."""
    with connection.admin() as admin:
        expires_ms = admin.expire_delegation_token(hmac, period_s=period_s)
    return Result({"expires_ms": expires_ms}, f"the token expires {_time(expires_ms)}")
