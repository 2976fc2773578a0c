"""`tidelog quota`: limits of users and client ids."""

import typer

from tidelog.cli._verbs import noun, verb
from tidelog.cli.quota import list_, remove, set_


def register(application: typer.Typer) -> None:
    """Add the noun and its verbs."""
    quota = noun(application, "quota", "List, set and remove the quotas of users and client ids.")
    verb(quota, "list", list_.list_quotas, list_.EXAMPLE)
    verb(quota, "set", set_.set_quotas, set_.EXAMPLE)
    verb(quota, "remove", remove.remove, remove.EXAMPLE)
