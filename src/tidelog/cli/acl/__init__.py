"""`tidelog acl`: what principals may do to topics, groups, transactional ids and the cluster."""

import typer

from tidelog.cli._verbs import noun, verb
from tidelog.cli.acl import add, list_, remove


def register(application: typer.Typer) -> None:
    """Add the noun and its verbs."""
    acl = noun(application, "acl", "List, add and remove access control entries.")
    verb(acl, "list", list_.list_acls, list_.EXAMPLE)
    verb(acl, "add", add.add, add.EXAMPLE)
    verb(acl, "remove", remove.remove, remove.EXAMPLE)
