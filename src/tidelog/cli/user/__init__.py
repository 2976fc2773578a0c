"""`tidelog user`: users that log in with SCRAM."""

import typer

from tidelog.cli._verbs import noun, verb
from tidelog.cli.user import add, delete, list_


def register(application: typer.Typer) -> None:
    """Add the noun and its verbs."""
    user = noun(application, "user", "List, add and delete users that log in with SCRAM.")
    verb(user, "list", list_.list_users, list_.EXAMPLE)
    verb(user, "add", add.add, add.EXAMPLE)
    verb(user, "delete", delete.delete, delete.EXAMPLE)
