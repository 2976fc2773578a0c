"""`tidelog token`: delegation tokens, with which other clients log in as their owner."""

import typer

from tidelog.cli._verbs import noun, verb
from tidelog.cli.token import create, expire, list_, renew


def register(application: typer.Typer) -> None:
    """Add the noun and its verbs."""
    token = noun(application, "token", "Create, list, renew and expire delegation tokens.")
    verb(token, "create", create.create, create.EXAMPLE)
    verb(token, "list", list_.list_tokens, list_.EXAMPLE)
    verb(token, "renew", renew.renew, renew.EXAMPLE)
    verb(token, "expire", expire.expire, expire.EXAMPLE)
