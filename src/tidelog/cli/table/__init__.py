"""`tidelog table`: topics as tables of a lakehouse. It makes, runs and supervises their pipelines."""

import typer

from tidelog.cli._verbs import noun, verb
from tidelog.cli.table import create, verbs


def register(application: typer.Typer) -> None:
    """Add the noun and its verbs."""
    table = noun(application, "table", "Keep Delta and Iceberg tables equal to topics.")
    verb(table, "create", create.create, create.EXAMPLE)
    verb(table, "list", verbs.list_tables, "tidelog table list")
    verb(table, "status", verbs.status, "tidelog table status orders")
    verb(table, "stop", verbs.stop, "tidelog table stop orders")
    verb(table, "start", verbs.start, "tidelog table start orders")
    verb(table, "run", verbs.run, "tidelog table run orders")
