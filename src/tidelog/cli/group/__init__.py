"""`tidelog group`: list, describe, reset and delete consumer groups."""

import typer

from tidelog.cli._verbs import noun, verb
from tidelog.cli.group import delete, describe, list_, reset


def register(application: typer.Typer) -> None:
    """Add the noun and its verbs."""
    group = noun(application, "group", "List, describe, reset and delete consumer groups.")
    verb(group, "list", list_.list_groups, list_.EXAMPLE)
    verb(group, "describe", describe.describe, describe.EXAMPLE)
    verb(group, "reset", reset.reset, reset.EXAMPLE)
    verb(group, "delete", delete.delete, delete.EXAMPLE)
